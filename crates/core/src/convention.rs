//! The convention: `{company}.{domain}.{action}.v{n}` (B3). The derive macro compiles this file too.

/// The parts of a name that follows the convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// `loopers` in `loopers.order.created.v1`.
    pub company: &'a str,
    /// `order`.
    pub domain: &'a str,
    /// `created`.
    pub action: &'a str,
    /// `1`.
    pub version: u32,
}

/// Takes a name apart; `None` when it is off the convention.
#[must_use]
pub fn parts(name: &str) -> Option<Parts<'_>> {
    let mut words = name.split('.');
    let (company, domain, action, version) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let version = version.strip_prefix('v').filter(|digits| !digits.starts_with('0'))?;
    let plain = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
    };
    let digits = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit());
    let whole = words.next().is_none() && digits && [company, domain, action].into_iter().all(plain);
    whole.then_some(()).and_then(|()| Some(Parts { company, domain, action, version: version.parse().ok()? }))
}

/// Why a name is off the convention, for people; `None` when it is not.
#[must_use]
pub fn fault(name: &str) -> Option<String> {
    parts(name).is_none().then(|| {
        format!(
            "event type \"{name}\" is not of the form company.domain.action.v1 (lower case, a version from 1)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B3: the convention, and what is off it.
    #[test]
    fn names_by_the_convention() {
        let name = parts("loopers.order.created.v12").unwrap();
        assert_eq!(
            (name.company, name.domain, name.action, name.version),
            ("loopers", "order", "created", 12)
        );
        for bad in [
            "",
            "order.created.v1",
            "a.b.c.1",
            "a.b.c.v0",
            "a.b.c.v01",
            "a.b.c.v",
            "a.b.c.v1.d",
            "A.b.c.v1",
            "a..c.v1",
            "a.b c.d.v1",
            "a.b.c.v99999999999",
        ] {
            assert!(parts(bad).is_none() && fault(bad).is_some(), "{bad}");
        }
    }
}
