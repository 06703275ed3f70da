//! Free ports on the loopback.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::time::Duration;

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
const TRIES_MAX: usize = 200;

/// As many free ports as asked, all different. Somebody may still take one before the server does: draw again then.
pub(crate) fn draw(count: usize) -> Result<Vec<u16>, String> {
    // All are held until the last one is found, so that none is found twice.
    let mut held: Vec<TcpListener> = Vec::new();
    while held.len() < count {
        held.push(free().ok_or("there is no free port on 127.0.0.1")?);
    }
    let ports = held.iter().map(|listener| listener.local_addr().map(|address| address.port()));
    ports.collect::<Result<_, _>>().map_err(|error| format!("cannot draw a port: {error}"))
}

/// Whether somebody listens there.
pub(crate) fn answers(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((LOOPBACK, port)), Duration::from_secs(2)).is_ok()
}

/// Below the ports that the system gives to outgoing connections: one of those could take the port of a server that is
/// down for a moment, and a client that knocks at such a port may even reach itself.
fn free() -> Option<TcpListener> {
    let range = drawn_from();
    let bind = |port| TcpListener::bind((LOOPBACK, port)).ok();
    (0..TRIES_MAX)
        .find_map(|_| bind(range.start + (chance() % u64::from(range.end - range.start)) as u16))
        .or_else(|| bind(0))
}

fn drawn_from() -> Range<u16> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    below(range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768))
}

fn below(first_outgoing: u16) -> Range<u16> {
    if first_outgoing > 12_000 { 10_000..first_outgoing } else { 20_000..32_000 }
}

/// The standard library has no other source of randomness.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_different() {
        let ports = draw(4).unwrap();
        assert_eq!(ports.len(), 4);
        assert!((1..4).all(|at| !ports[..at].contains(&ports[at])), "{ports:?}");
    }

    #[test]
    fn a_port_answers_while_somebody_listens() {
        let listener = free().unwrap();
        assert!(answers(listener.local_addr().unwrap().port()));
        // Of several, because somebody else may listen at one of them by now.
        assert!(draw(20).unwrap().into_iter().any(|port| !answers(port)));
    }

    #[test]
    fn ports_of_outgoing_connections_are_left_alone() {
        assert_eq!(below(32_768), 10_000..32_768);
        assert!(!below(1_024).is_empty());
    }
}
