//! One suite per trait, run over every adapter.
