//! Chance for an application that has none of its own.

/// Random bytes of the operating system, for [`Draft::seal`](crate::Draft::seal).
///
/// # Panics
/// When the operating system has none, which a running one does not.
#[must_use]
pub fn chance() -> [u8; 10] {
    let mut bytes = [0; 10];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike() {
        assert_ne!(chance(), chance());
    }
}
