//! Text that is shared, not copied: a batch is read into buffers and everything in it borrows from there.

/// Cheaply cloned UTF-8 text, usually a slice of a batch's buffer.
pub use bytestring::ByteString as Text;
