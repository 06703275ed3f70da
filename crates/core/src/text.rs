//! Text that is shared, not copied: a batch is read into an arena and everything in it borrows from there.

use bytes::{Bytes, BytesMut};

/// Cheaply cloned UTF-8 text, usually a slice of a batch's arena.
pub use bytestring::ByteString as Text;

/// Gathers the bytes of a batch in a few large buffers; whatever is put in is a shared slice of one of them.
///
/// ```
/// use postrider_core::Arena;
/// let mut arena = Arena::with_capacity(64);
/// assert_eq!(arena.text(b"hello").unwrap(), "hello");
/// assert_eq!(&arena.bytes(b"world")[..], b"world");
/// assert_eq!(arena.len(), 10);
/// ```
#[derive(Debug, Default)]
pub struct Arena {
    buffer: BytesMut,
    len: usize,
}

/// A buffer that is full is followed by one of this many bytes, unless a single value is larger. Allocators keep buffers of
/// this size for the next batch; much larger ones go back to the kernel, which has to clear them anew each time.
const CHUNK_BYTES: usize = 64 * 1024;

impl Arena {
    /// An arena that will hold about so many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { buffer: BytesMut::with_capacity(bytes.min(CHUNK_BYTES)), len: 0 }
    }

    /// Copies a value in and shares it.
    pub fn bytes(&mut self, value: &[u8]) -> Bytes {
        if self.buffer.capacity() < value.len() {
            self.buffer = BytesMut::with_capacity(CHUNK_BYTES.max(value.len()));
        }
        self.len += value.len();
        self.buffer.extend_from_slice(value);
        self.buffer.split().freeze()
    }

    /// Copies a text in and shares it; `None` when it is not UTF-8.
    pub fn text(&mut self, value: &[u8]) -> Option<Text> {
        Text::try_from(self.bytes(value)).ok()
    }

    /// Bytes gathered so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been put in yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_stays_whole_when_a_buffer_is_full() {
        let mut arena = Arena::with_capacity(10);
        let values: Vec<Vec<u8>> = (0..100u8).map(|byte| vec![byte; usize::from(byte) * 1_000]).collect();
        let shared: Vec<Bytes> = values.iter().map(|value| arena.bytes(value)).collect();
        assert!(values.iter().zip(&shared).all(|(value, shared)| value == shared));
        assert_eq!(arena.len(), values.iter().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn what_is_not_utf_8_is_no_text() {
        assert_eq!(Arena::default().text(b"\xff"), None);
        assert_eq!(Arena::default().text(b"").unwrap(), "");
    }
}
