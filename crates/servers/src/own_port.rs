//! Ports that this process uses, each drawn once: one that is free while its server is down is not given away.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::port;

/// A free port that nobody in this process has drawn before.
pub(crate) fn draw() -> u16 {
    static DRAWN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    let drawn = drawn.get_or_insert_default();
    loop {
        let port = port::draw(1).expect("a free port")[0];
        if drawn.insert(port) {
            return port;
        }
    }
}
