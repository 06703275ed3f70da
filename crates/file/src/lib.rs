//! The file sink.
