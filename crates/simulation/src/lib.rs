//! A deterministic world for the relay.
