//! The writing half of a link.

use std::io;

use paceline_exchange::Frame;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::Shared;
use super::link::{Link, Work};
use crate::transport::TransportEvent;

/// Frames are gathered up to this many bytes, so that many small ones cost one call of the system; larger bodies go out
/// from where they are.
const GATHERED: usize = 64 << 10;

/// Sends whatever is queued, and the reason at last if the link is closed here.
pub(super) async fn frames(shared: &Shared, link: &Link, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut gathered = Vec::new();
    loop {
        gathered.clear();
        let (mut bytes, mut large, mut goodbye, mut idle) = (0, Vec::new(), false, false);
        while gathered.len() < GATHERED && large.is_empty() && !goodbye && !idle {
            match link.next_work() {
                Work::Frame(frame) => {
                    bytes += frame.size();
                    if frame.body.len() < GATHERED {
                        frame.write(&mut gathered);
                    } else {
                        gathered.extend(frame.header());
                        large = frame.body;
                    }
                }
                Work::Goodbye(reason) => {
                    goodbye_frame(&reason).write(&mut gathered);
                    goodbye = true;
                }
                Work::None => idle = true,
            }
        }
        output.write_all(&gathered).await?;
        output.write_all(&large).await?;
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
    Frame { kind: Frame::GOODBYE, run: 0, term: 0, origin: 0, sequence: 0, body: reason.as_bytes().to_vec() }
}
