//! A door before a server: connections go through it until it is closed, cut or stalled.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{own_port, pipe, url, wait};

/// Listens on a port of its own, and lets bytes through to a server. Closed and cut when dropped.
#[derive(Debug)]
pub struct Door {
    port: u16,
    shared: Arc<Shared>,
    doorkeeper: Option<Doorkeeper>,
}

/// Accepts while the door is open.
#[derive(Debug)]
struct Doorkeeper {
    /// The listening socket, seen as one that can be shut down.
    socket: TcpStream,
    thread: JoinHandle<()>,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// What all threads of a door see.
#[derive(Debug)]
pub(crate) struct Shared {
    server: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    stalled: Vec<Way>,
    delay: Duration,
    accepted: u64,
    /// Both ends of each connection, by number.
    connections: Vec<(u64, TcpStream, TcpStream)>,
    bytes_to_server: u64,
    bytes_to_client: u64,
}

impl Door {
    /// A door before the server of this URL, or of this `host:port`.
    #[must_use]
    pub fn before(server: &str) -> Self {
        let shared = Shared {
            server: url::place(server).to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        let listener = bound(own_port::draw);
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let shared = Arc::new(shared);
        let doorkeeper = Some(watch(listener, &shared));
        Self { port, shared, doorkeeper }
    }

    /// The same URL through this door.
    #[must_use]
    pub fn url(&self, server: &str) -> String {
        url::with_port(server, self.port)
    }

    /// Where it is.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections, in the middle of whatever they carry.
    pub fn cut(&self) {
        let mut state = self.shared.lock();
        for (_, client, server) in state.connections.drain(..) {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
    }

    /// Refuses new connections; those that stand go on.
    pub fn close(&mut self) {
        let Some(Doorkeeper { socket, thread }) = self.doorkeeper.take() else { return };
        self.shared.lock().closed = true;
        // Shut down, not just dropped: a process that is being started somewhere here holds a copy for a moment.
        let _ = socket.shutdown(Shutdown::Both);
        // Wakes the doorkeeper, where shutting down did not.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        thread.join().expect("the doorkeeper goes home");
    }

    /// Accepts connections again, on the same port.
    pub fn open(&mut self) {
        if self.doorkeeper.is_none() {
            self.shared.lock().closed = false;
            self.doorkeeper = Some(watch(bound(|| self.port), &self.shared));
        }
    }

    /// Lets no byte through, in either direction; what comes meanwhile waits.
    pub fn stall(&self) {
        self.stall_ways(&[Way::ToServer, Way::ToClient]);
    }

    /// Lets questions through, but no answer: the server has done what the client does not know of.
    pub fn stall_answers(&self) {
        self.stall_ways(&[Way::ToClient]);
    }

    /// Lets everything through again, in order and without loss.
    pub fn resume(&self) {
        self.stall_ways(&[]);
    }

    /// Everything takes this much longer, each way.
    pub fn delay(&self, delay: Duration) {
        self.shared.lock().delay = delay;
    }

    /// How many connections there have been.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.lock().accepted
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// How many bytes the server was sent, and how many it has answered.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let state = self.shared.lock();
        (state.bytes_to_server, state.bytes_to_client)
    }

    fn stall_ways(&self, ways: &[Way]) {
        self.shared.lock().stalled = ways.to_vec();
        self.shared.changed.notify_all();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.close();
        self.resume();
        self.cut();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn delay(&self) -> Duration {
        self.lock().delay
    }

    /// Waits while this way is stalled; whether the connection still stands.
    pub(crate) fn pass(&self, connection: u64, way: Way, bytes: usize) -> bool {
        let stands = |state: &State| state.connections.iter().any(|(known, ..)| *known == connection);
        let held = |state: &mut State| state.stalled.contains(&way) && stands(state);
        let waited = self.changed.wait_while(self.lock(), held);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        match way {
            Way::ToServer => state.bytes_to_server += bytes as u64,
            Way::ToClient => state.bytes_to_client += bytes as u64,
        }
        stands(&state)
    }

    /// Both directions of a connection have ended.
    pub(crate) fn forget(&self, connection: u64) {
        self.lock().connections.retain(|(known, ..)| *known != connection);
    }

    fn enter(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(&self.server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ends = (client.try_clone()?, server.try_clone()?);
        let mut state = self.lock();
        state.accepted += 1;
        let connection = state.accepted;
        state.connections.push((connection, ends.0, ends.1));
        drop(state);
        pipe::join(self, connection, client, server)
    }
}

/// A closed port may be taken by somebody for a moment; a drawn one is drawn again.
fn bound(mut port: impl FnMut() -> u16) -> TcpListener {
    let mut listener = None;
    wait::until("the door's port is free", || {
        listener = TcpListener::bind(("127.0.0.1", port())).ok();
        listener.is_some()
    });
    listener.expect("it was waited for")
}

/// Accepts until the door is closed; then the system refuses for us.
fn watch(listener: TcpListener, shared: &Arc<Shared>) -> Doorkeeper {
    let socket = TcpStream::from(OwnedFd::from(listener.try_clone().expect("a second view of a socket")));
    let shared = Arc::clone(shared);
    let thread = std::thread::spawn(move || {
        for client in listener.incoming() {
            if shared.lock().closed {
                return;
            }
            // A server that is away lets nobody in: the client sees its connection end.
            let _ = client.and_then(|client| shared.enter(client));
        }
    });
    Doorkeeper { socket, thread }
}
