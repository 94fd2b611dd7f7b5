//! The reading half of a link.

use std::time::{Duration, Instant};

use bytes::BufMut;
use paceline_exchange::{Frame, FrameError, FrameReader, Pieces};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::block_in_place;

use super::Shared;
use super::link::Link;
use crate::spool;
use crate::transport::TransportEvent;
use crate::trust::explain;

/// Bytes that are asked for at once.
const CHUNK: usize = 128 << 10;

/// As many after a frame of at least so many: the next may be as long, and only its beginning is to be copied from here.
const BEGINNING: usize = 4 << 10;

/// How often it is told that a long frame is on its way.
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// Bytes of a reason that are shown.
const LONGEST_REASON: usize = 1000;

/// Tells every frame that arrives, until the peer has gone; says why. As soon as the link ends on this side, because the
/// peer sent what it may not or for another reason, what arrives is dropped.
pub(super) async fn frames(shared: &Shared, link: &Link, peer: &str, mut input: impl AsyncRead + Unpin) -> String {
    let mut reader = FrameReader::new(shared.limits.stranger_frame);
    let mut chunk = vec![0; CHUNK];
    let (mut pieces, mut told) = (Pieces::new(spool::open), Instant::now());
    let (mut first, mut asked) = (true, CHUNK);
    loop {
        // The rest of a long body is read to where it belongs.
        let direct = reader.direct().filter(|_| !link.is_ending());
        let is_direct = direct.is_some();
        let read = match direct {
            Some((body, room)) => input.read_buf(&mut body.limit(room)).await,
            None => input.read(&mut chunk[..asked]).await,
        };
        match read {
            Ok(0) => return format!("`{peer}` {}", end_of_stream(&reader)),
            Err(error) => return format!("`{peer}` is gone: {}", explain(&error)),
            Ok(count) if is_direct => reader.arrived(count),
            Ok(count) => reader.push(&chunk[..count]),
        }
        while !link.is_ending() {
            if link.is_admitted() {
                reader.set_limit(shared.limits.largest_frame.min(Frame::LONGEST));
            }
            match reader.next() {
                Ok(None) => break,
                Ok(Some(frame)) if frame.kind == Frame::GOODBYE => {
                    return format!("`{peer}` closed: {}", printable(frame.body.memory()));
                }
                Ok(Some(piece)) if piece.kind == Frame::PIECE => {
                    // Only the first frame of a stranger may be no part of a longer one.
                    let limit =
                        if link.is_admitted() { shared.limits.largest_frame } else { shared.limits.stranger_frame };
                    // A file may take its time: other links go on meanwhile.
                    let taken = match pieces.is_spooling() {
                        true => block_in_place(|| pieces.take(piece, limit)),
                        false => pieces.take(piece, limit),
                    };
                    match taken {
                        Ok(Some(frame)) => shared.events.emit(TransportEvent::Frame { link: link.id, frame }).await,
                        Ok(None) if told.elapsed() >= TOLD_EVERY => {
                            told = Instant::now();
                            shared.events.emit(TransportEvent::Arriving { link: link.id }).await;
                        }
                        Ok(None) => {}
                        Err(error) => refuse(link, peer, &error),
                    }
                }
                Ok(Some(frame)) => {
                    first = false;
                    asked = if frame.size() < CHUNK { CHUNK } else { BEGINNING };
                    shared.events.emit(TransportEvent::Frame { link: link.id, frame }).await;
                }
                Err(FrameError::TooLarge { found, .. })
                    if !first && !link.is_admitted() && found <= shared.limits.largest_frame as u64 =>
                {
                    link.admitted().await;
                }
                Err(error) => refuse(link, peer, &error),
            }
        }
        if link.is_ending() {
            reader = FrameReader::new(0);
        }
    }
}

fn refuse(link: &Link, peer: &str, error: &FrameError) {
    let refusal = refusal(error);
    let reason = format!("refused what `{peer}` sent: {refusal}");
    link.refuse(refusal, reason);
}

fn end_of_stream(reader: &FrameReader) -> String {
    match reader.finish() {
        Ok(()) => "ended the connection without a reason".to_owned(),
        Err(error) => format!("ended the connection: {error}"),
    }
}

/// What was refused, with what the first bytes of other protocols tell.
fn refusal(error: &FrameError) -> String {
    match error {
        FrameError::WrongMagic { found } if found.starts_with(&[0x16, 3]) => {
            format!("{error}, which is TLS: one side speaks it and the other does not")
        }
        FrameError::WrongMagic { found } if found.starts_with(&[0x15, 3]) => {
            format!(
                "{error}, which is TLS: the peer expects it, so connect with the join string that the master printed"
            )
        }
        FrameError::WrongMagic { .. } => format!("{error}: this is a port of Paceline, and of nothing else"),
        error => error.to_string(),
    }
}

/// Text of a peer, without what could disturb a terminal.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST_REASON)]);
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
