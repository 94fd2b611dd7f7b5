//! A link to a ZooKeeper that can fall silent, and that can lose a reply.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The code of a transaction in a request.
const TRANSACTION: i32 = 14;
/// No request has this number.
const NONE: i32 = i32::MIN;

/// A port that leads to a server, frame by frame.
pub(crate) struct Link {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    server: String,
    is_over: AtomicBool,
    is_silent: AtomicBool,
    /// The reply of the next transaction shall be lost.
    is_armed: AtomicBool,
    /// The number of the request whose reply shall be lost.
    doomed: AtomicI32,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    pub(crate) fn to(server: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            server: server.to_owned(),
            is_over: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            is_armed: AtomicBool::new(false),
            doomed: AtomicI32::new(NONE),
            open: Mutex::new(Vec::new()),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(SeqCst) {
                    return;
                }
                join(&shared, client);
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// From now on nothing passes; connections stay, and are made, as with a process that was stopped.
    pub(crate) fn silence(&self) {
        self.state.is_silent.store(true, SeqCst);
    }

    /// From now on everything passes again, over new connections.
    pub(crate) fn restore(&self) {
        self.state.is_silent.store(false, SeqCst);
        self.state.cut();
    }

    /// The next transaction reaches the server; its reply does not come back, and the connection breaks.
    pub(crate) fn lose_next_transaction(&self) {
        self.state.is_armed.store(true, SeqCst);
    }

    /// Whether a reply has been lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.state.doomed.load(SeqCst) != NONE && !self.state.is_armed.load(SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.state.is_over.store(true, SeqCst);
        // So that the listening thread sees it.
        let _ = TcpStream::connect(self.address);
        self.state.cut();
    }
}

impl State {
    fn cut(&self) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Carries frames both ways until one side ends.
fn join(state: &Arc<State>, client: TcpStream) {
    let Ok(server) = TcpStream::connect(&state.server) else { return };
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a connection");
    }
    let second = |stream: &TcpStream| stream.try_clone().expect("a second handle");
    state.open.lock().unwrap_or_else(PoisonError::into_inner).extend([second(&client), second(&server)]);
    let (upwards, downwards) = ((second(&client), second(&server)), (server, client));
    let shared = Arc::clone(state);
    thread::spawn(move || {
        carry(&shared, upwards, |state, frame| {
            let word = |at: usize| frame.get(at..at + 4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]]));
            if word(4) == Some(TRANSACTION) && state.is_armed.swap(false, SeqCst) {
                state.doomed.store(word(0).unwrap_or(NONE), SeqCst);
            }
            true
        });
    });
    let shared = Arc::clone(state);
    thread::spawn(move || {
        carry(&shared, downwards, |state, frame| {
            let number = frame.get(..4).map(|b| i32::from_be_bytes([b[0], b[1], b[2], b[3]]));
            number != Some(state.doomed.load(SeqCst))
        });
    });
}

/// Carries frames from one side to the other for as long as `passes` says so, and then closes both.
fn carry(state: &State, (mut from, mut to): (TcpStream, TcpStream), passes: impl Fn(&State, &[u8]) -> bool) {
    let mut length = [0; 4];
    while from.read_exact(&mut length).is_ok() {
        let mut frame = length.to_vec();
        frame.resize(4 + u32::from_be_bytes(length) as usize, 0);
        if from.read_exact(&mut frame[4..]).is_err() || !passes(state, &frame[4..]) {
            break;
        }
        if !state.is_silent.load(SeqCst) && to.write_all(&frame).is_err() {
            break;
        }
    }
    if !state.is_silent.load(SeqCst) {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
