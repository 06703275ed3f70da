//! Buffers that come back: one thread fills them and another is done with them, which allocators answer by giving the
//! memory to the system and clearing it anew for every batch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Lists that wait for their next use.
#[derive(Debug)]
pub(super) struct Pool<T> {
    free: Arc<Mutex<Vec<Vec<T>>>>,
}

/// Of buffers, some 4 MB: what a few batches take.
const LISTS_MAX: usize = 64;
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

impl<T> Pool<T> {
    pub(super) fn new() -> Self {
        Self { free: Arc::default() }
    }

    /// An empty list; a new one has room for this many.
    pub(super) fn take(&self, capacity: usize) -> Vec<T> {
        self.free().pop().unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Takes a list back.
    pub(super) fn give(&self, mut list: Vec<T>) {
        let mut free = self.free();
        if free.len() < LISTS_MAX {
            list.clear();
            free.push(list);
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool<u8> {
    /// Shares a buffer; it comes back when the last slice of it is gone.
    pub(super) fn share(&self, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { buffer, home: self.clone() })
    }
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self { free: Arc::clone(&self.free) }
    }
}

struct Lent {
    buffer: Vec<u8>,
    home: Pool<u8>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // One that had to grow for a large row is not kept.
        if self.buffer.capacity() == BUFFER_BYTES {
            self.home.give(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_with_its_last_slice() {
        let pool = Pool::new();
        let mut buffer = pool.take(BUFFER_BYTES);
        buffer.extend_from_slice(b"hello");
        let shared = pool.share(buffer);
        let slice = shared.slice(1..3);
        drop(shared);
        assert!(pool.free().is_empty());
        assert_eq!(slice, "el");
        drop(slice);
        assert_eq!(pool.free().len(), 1);
        assert!(pool.take(BUFFER_BYTES).is_empty());
    }

    /// SRC-07, memory: what is kept is bounded in number and in size.
    #[test]
    fn it_keeps_few_buffers_and_none_that_grew() {
        let pool = Pool::new();
        let all: Vec<Bytes> = (0..2 * LISTS_MAX).map(|_| pool.share(pool.take(BUFFER_BYTES))).collect();
        drop(all);
        assert_eq!(pool.free().len(), LISTS_MAX);
        let mut grown = pool.take(BUFFER_BYTES);
        grown.extend_from_slice(&[0; BUFFER_BYTES + 1]);
        drop(pool.share(grown));
        assert_eq!(pool.free().len(), LISTS_MAX - 1);
    }
}
