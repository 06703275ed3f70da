//! Text that is shared, not copied: a batch is read into buffers and everything in it borrows from there.

/// Cheaply cloned UTF-8 text, usually a slice of a batch's buffer.
pub use bytestring::ByteString as Text;

/// A copy of its own: what is kept for long must not keep a batch's whole buffer alive.
#[must_use]
pub fn owned(text: &str) -> Text {
    Text::from(text)
}
