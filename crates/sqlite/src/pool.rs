//! Buffers that come back: one thread fills them and another is done with them, which allocators answer by giving the
//! memory to the system and clearing it anew for every batch.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Buffers of one size that wait for their next use.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Some 4 MB: what a few batches take.
const BUFFERS_MAX: usize = 64;
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

impl Pool {
    pub(crate) fn new() -> Self {
        Self { free: Arc::default() }
    }

    /// An empty buffer of [`BUFFER_BYTES`].
    pub(crate) fn take(&self) -> Vec<u8> {
        self.free().pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Shares a buffer; it comes back when the last slice of it is gone.
    pub(crate) fn share(&self, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { buffer, home: self.clone() })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lent {
    buffer: Vec<u8>,
    home: Pool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut free = self.home.free();
        // One that had to grow for a large row is not kept.
        if buffer.capacity() == BUFFER_BYTES && free.len() < BUFFERS_MAX {
            buffer.clear();
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_with_its_last_slice() {
        let pool = Pool::new();
        let mut buffer = pool.take();
        buffer.extend_from_slice(b"hello");
        let shared = pool.share(buffer);
        let slice = shared.slice(1..3);
        drop(shared);
        assert!(pool.free().is_empty());
        assert_eq!(slice, "el");
        drop(slice);
        assert_eq!(pool.free().len(), 1);
        assert!(pool.take().is_empty());
    }

    /// SRC-07, memory: what is kept is bounded in number and in size.
    #[test]
    fn it_keeps_few_buffers_and_none_that_grew() {
        let pool = Pool::new();
        let all: Vec<Bytes> = (0..2 * BUFFERS_MAX).map(|_| pool.share(pool.take())).collect();
        drop(all);
        assert_eq!(pool.free().len(), BUFFERS_MAX);
        let mut grown = pool.take();
        grown.extend_from_slice(&[0; BUFFER_BYTES + 1]);
        drop(pool.share(grown));
        assert_eq!(pool.free().len(), BUFFERS_MAX - 1);
    }
}
