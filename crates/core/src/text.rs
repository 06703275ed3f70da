//! Text that is shared, not copied: a batch is read into one buffer and everything in it borrows from there.

use bytes::Bytes;

/// Cheaply cloned UTF-8 text, usually a slice of a batch's one buffer.
pub use bytestring::ByteString as Text;

/// Where a value stands in an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    len: u32,
}

/// Gathers the bytes of a batch in one buffer; spans become shared slices once it is sealed.
///
/// ```
/// use postrider_core::Arena;
/// let mut arena = Arena::with_capacity(64);
/// let hello = arena.put(b"hello");
/// let sealed = arena.seal();
/// assert_eq!(&sealed.bytes(hello)[..], b"hello");
/// ```
#[derive(Debug, Default)]
pub struct Arena {
    buffer: Vec<u8>,
}

impl Arena {
    /// An arena that holds `bytes` before it has to grow.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { buffer: Vec::with_capacity(bytes) }
    }

    /// Copies a value in and says where it stands.
    ///
    /// # Panics
    /// When the batch passes 4 GiB, which [`crate::limits`] forbids long before.
    pub fn put(&mut self, value: &[u8]) -> Span {
        let start = u32::try_from(self.buffer.len()).expect("a batch stays below 4 GiB");
        let len = u32::try_from(value.len()).expect("a value stays below 4 GiB");
        self.buffer.extend_from_slice(value);
        Span { start, len }
    }

    /// Bytes gathered so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether nothing has been put in yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Freezes the buffer so that slices of it can be shared.
    #[must_use]
    pub fn seal(self) -> Sealed {
        Sealed { buffer: Bytes::from(self.buffer) }
    }
}

/// A frozen [`Arena`].
#[derive(Clone, Debug)]
pub struct Sealed {
    buffer: Bytes,
}

impl Sealed {
    /// The bytes of a span, shared.
    #[must_use]
    pub fn bytes(&self, span: Span) -> Bytes {
        let start = span.start as usize;
        self.buffer.slice(start..start + span.len as usize)
    }

    /// The text of a span, shared; `None` when it is not UTF-8.
    #[must_use]
    pub fn text(&self, span: Span) -> Option<Text> {
        Text::try_from(self.bytes(span)).ok()
    }
}
