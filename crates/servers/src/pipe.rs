//! One connection through a door: each way has a reader and a writer, so that a delay delays without narrowing.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use crate::door::{Shared, Way};

const PIECE_BYTES: usize = 64 * 1024;
/// Then the sender feels that nobody reads.
const PIECES_MAX: usize = 16;

/// Lets bytes through both ways, until both have ended.
pub(crate) fn join(
    shared: &Arc<Shared>,
    connection: u64,
    client: TcpStream,
    server: TcpStream,
) -> io::Result<()> {
    let there = way(shared, connection, Way::ToServer, client.try_clone()?, server.try_clone()?);
    let back = way(shared, connection, Way::ToClient, server, client);
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let _ = there.join();
        let _ = back.join();
        shared.forget(connection);
    });
    Ok(())
}

fn way(
    shared: &Arc<Shared>,
    connection: u64,
    way: Way,
    from: TcpStream,
    to: TcpStream,
) -> std::thread::JoinHandle<()> {
    let (pieces, coming) = sync_channel(PIECES_MAX);
    std::thread::spawn(move || read(from, &pieces));
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let _ = write(&shared, connection, way, &to, &coming);
        // The end goes through as well, but not past what is held.
        let _ = to.shutdown(Shutdown::Write);
    })
}

fn read(mut from: TcpStream, pieces: &SyncSender<(Instant, Vec<u8>)>) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut piece) {
        if pieces.send((Instant::now(), piece[..bytes].to_vec())).is_err() {
            return;
        }
    }
}

fn write(
    shared: &Shared,
    connection: u64,
    way: Way,
    mut to: &TcpStream,
    coming: &Receiver<(Instant, Vec<u8>)>,
) -> io::Result<()> {
    for (came, piece) in coming {
        std::thread::sleep(shared.delay().saturating_sub(came.elapsed()));
        if !shared.pass(connection, way, piece.len()) {
            return Ok(());
        }
        to.write_all(&piece)?;
    }
    // Of an end too: somebody who only waits for it must not see it while nothing goes through.
    shared.pass(connection, way, 0);
    Ok(())
}
