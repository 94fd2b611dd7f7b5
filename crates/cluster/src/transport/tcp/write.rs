//! The writing half of a link.

use std::io;

use bytes::Buf;
use paceline_exchange::Frame;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::task::block_in_place;

use super::Shared;
use super::link::{Link, Work};
use crate::transport::TransportEvent;

/// Frames are gathered up to this many bytes, so that many small ones cost one call of the system.
const GATHERED: usize = 64 << 10;

/// A body of so many bytes is not gathered: it is sent from where it lies.
const NOT_COPIED: usize = 16 << 10;

/// Sends whatever is queued, and the reason at last if the link is closed here.
pub(super) async fn frames(shared: &Shared, link: &Link, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut gathered = Vec::new();
    // A frame that goes out in pieces, and the bytes of its body that are gone.
    let mut long: Option<(Frame, u64)> = None;
    loop {
        gathered.clear();
        let (mut bytes, mut goodbye, mut idle) = (0, false, false);
        let mut lying = None;
        while let Some(frame) = link.next_urgent() {
            bytes += frame.size();
            frame.write(&mut gathered);
        }
        while gathered.len() < GATHERED && long.is_none() && lying.is_none() && !goodbye && !idle {
            match link.next_work() {
                Work::Frame(frame) if frame.body.len() > Frame::WHOLE as u64 => {
                    bytes += Frame::HEADER;
                    long = Some((frame, 0));
                }
                Work::Frame(frame) if frame.body.len() >= NOT_COPIED as u64 => {
                    bytes += frame.size();
                    gathered.extend(frame.header());
                    lying = Some(frame.body.memory().clone());
                }
                Work::Frame(frame) => {
                    bytes += frame.size();
                    frame.write(&mut gathered);
                }
                Work::Goodbye(reason) => {
                    goodbye_frame(&reason).write(&mut gathered);
                    goodbye = true;
                }
                Work::None => idle = true,
            }
        }
        if let Some((frame, gone)) = &mut long {
            // A file may take its time: other links go on meanwhile.
            let part = match frame.body.is_in_memory() {
                true => frame.write_piece(*gone, &mut gathered)?,
                false => block_in_place(|| frame.write_piece(*gone, &mut gathered))?,
            };
            (bytes, *gone) = (bytes + (part.end - part.start) as usize, part.end);
        }
        long = long.filter(|(frame, gone)| *gone < frame.body.len());
        // In one call of the system where it takes several slices.
        output.write_all_buf(&mut gathered.chain(&lying.unwrap_or_default()[..])).await?;
        output.flush().await?;
        if goodbye {
            return output.shutdown().await;
        }
        // Whoever ends a link wants to send nothing more.
        if link.sent(bytes) && !link.is_ending() {
            shared.events.emit(TransportEvent::Writable { link: link.id }).await;
        }
        if idle {
            link.work.notified().await;
        }
    }
}

/// What a peer is told at the end of a link.
pub(super) fn goodbye_frame(reason: &str) -> Frame {
    Frame { kind: Frame::GOODBYE, run: 0, term: 0, origin: 0, sequence: 0, body: reason.as_bytes().to_vec().into() }
}
