//! The parts of a server's URL that tests exchange.

/// The same server, another database.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (start, _, end) = parts(url);
    let options = end.find('?').map_or("", |at| &end[at..]);
    format!("{start}{}/{name}{options}", parts(url).1)
}

/// The same database behind another port of this machine.
pub(crate) fn with_port(url: &str, port: u16) -> String {
    let (start, place, end) = parts(url);
    // A certificate may be for the name.
    let host = if place.split(':').next() == Some("localhost") { "localhost" } else { "127.0.0.1" };
    format!("{start}{host}:{port}{end}")
}

/// Host and port of a URL, or of a plain `host:port`.
pub(crate) fn place(url: &str) -> &str {
    parts(url).1
}

/// User and password of a URL, with the colon between.
pub(crate) fn login(url: &str) -> &str {
    let (start, ..) = parts(url);
    let start = start.split_once("://").map_or(start, |(_, login)| login);
    start.strip_suffix('@').unwrap_or(start)
}

/// The database of a URL.
pub(crate) fn database(url: &str) -> &str {
    let (.., end) = parts(url);
    end.split('?').next().unwrap_or(end).trim_start_matches('/')
}

/// What stands before host and port, they, and what stands behind.
fn parts(url: &str) -> (&str, &str, &str) {
    let scheme_end = url.find("://").map_or(0, |at| at + 3);
    let authority_end = url[scheme_end..].find(['/', '?']).map_or(url.len(), |at| scheme_end + at);
    let place_at = url[scheme_end..authority_end].rfind('@').map_or(scheme_end, |at| scheme_end + at + 1);
    (&url[..place_at], &url[place_at..authority_end], &url[authority_end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_exchanged_and_the_options_stay() {
        for (url, other) in [
            ("postgres://a:p%40@h:5/b?x=1/2", "postgres://a:p%40@h:5/new?x=1/2"),
            ("postgres://h:5/b", "postgres://h:5/new"),
            ("postgres://h:5", "postgres://h:5/new"),
            ("postgres://h:5?x=1", "postgres://h:5/new?x=1"),
        ] {
            assert_eq!(with_database(url, "new"), other);
        }
    }

    #[test]
    fn the_port_is_exchanged_and_a_name_stays() {
        for (url, other) in [
            ("postgres://a:p@h:5/b?x=@1", "postgres://a:p@127.0.0.1:9/b?x=@1"),
            ("postgres://localhost:5/b", "postgres://localhost:9/b"),
            ("h:5", "127.0.0.1:9"),
        ] {
            assert_eq!(with_port(url, 9), other);
        }
        assert_eq!(place("postgres://a@h:5/b"), "h:5");
    }

    #[test]
    fn login_and_database_are_found() {
        for (url, found) in
            [("mysql://a:p@h:5/b?x=1", ("a:p", "b")), ("mysql://a@h/b", ("a", "b")), ("h:5", ("", ""))]
        {
            assert_eq!((login(url), database(url)), found);
        }
    }
}
