//! The derive macro for Postrider events.
