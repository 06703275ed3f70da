//! Starts processes that end with this one, however it ends.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

type Order = (Command, Sender<io::Result<Child>>);

/// Starts a command that asks the kernel for a signal at its parent's end (`setpriv --pdeathsig`). By parent the kernel
/// means the thread, and a test's thread ends with the test: so one thread that stays starts them all.
pub(crate) fn start(command: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (orders, ordered) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in ordered {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, answered) = channel();
    let sent = keeper.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    sent.map_err(io::Error::other)?;
    answered.recv().map_err(io::Error::other)?
}
