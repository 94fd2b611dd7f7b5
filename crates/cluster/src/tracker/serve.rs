//! Those who connect.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{sleep, timeout};

use super::TrackerLimits;
use super::answer::Answers;
use crate::{descriptors, local_user};

/// How long nobody is accepted when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// The least that the HTTP library can be told to keep of a head.
const LEAST_HEAD: usize = 8 << 10;

/// Answers everybody, for ever.
pub(super) async fn connections(listener: TcpListener, answers: Answers, limits: TrackerLimits) {
    let answers = Arc::new(answers);
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        // It fails when the peer has gone already, or when files run out; then others must go first.
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        if !descriptors::are_left() {
            drop(stream);
            sleep(PAUSE).await;
            continue;
        }
        open.retain(|connection| !connection.is_finished());
        if open.len() >= limits.connections.max(1)
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(connection(stream, answers.clone(), limits)));
        // Whoever has come gets its turn before the next one is let in, which may cost the oldest its place.
        yield_now().await;
    }
}

/// One request and its answer, within the limit for both. A connection is not kept for another request: nobody asks so
/// often that it would matter, and so one limit holds for everything that a peer can be slow at.
async fn connection(stream: TcpStream, answers: Arc<Answers>, limits: TrackerLimits) {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
    let is_stranger = local_user::is_another(local, peer);
    let service = service_fn(|request| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(answers.answer(request, local.ip(), is_stranger).await) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(limits.head.max(LEAST_HEAD))
        .serve_connection(TokioIo::new(stream), service);
    // Garbage, half requests and those who leave are their own affair.
    let _ = timeout(limits.request, connection).await;
}
