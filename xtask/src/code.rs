//! Rust source with comments and literals blanked out, so that a rule never trips over prose.

/// The same text, line by line, with every comment and every literal's content replaced by spaces.
pub(crate) fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        match opaque_bytes(rest, after_word) {
            Some(bytes) => {
                code.extend(rest[..bytes].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
                rest = &rest[bytes..];
            }
            None => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// How long the comment or literal is that starts here, if one does.
fn opaque_bytes(text: &str, after_word: bool) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment_bytes(text));
    }
    if text.starts_with('"') {
        return Some(string_bytes(text));
    }
    if text.starts_with('\'') {
        return char_bytes(text);
    }
    if after_word { None } else { raw_string_bytes(text) }
}

fn block_comment_bytes(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let here = &text.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn string_bytes(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A quote may also start a lifetime, which is code.
fn char_bytes(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

fn raw_string_bytes(text: &str) -> Option<usize> {
    let start = text.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let body = start.trim_start_matches('#');
    let end = format!("\"{}", "#".repeat(start.len() - body.len()));
    let body_at = text.len() - body.len() + 1;
    body.starts_with('"')
        .then(|| text[body_at..].find(&end).map_or(text.len(), |at| body_at + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_blank_and_code_stays() {
        for (source, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x \" y") + 1"#, "f(        ) + 1"),
            (r##"f(r#"x " y"#) + 1"##, "f(          ) + 1"),
            ("f('\\'', '\"') + g::<'a>()", "f(    ,    ) + g::<'a>()"),
            ("for x in y", "for x in y"),
            ("var\"x\"", "var   "),
        ] {
            assert_eq!(code_of(source), code, "{source}");
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "a\n\"x\ny\"\n/*\n*/ b é\n";
        assert_eq!(code_of(source).lines().count(), source.lines().count());
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for source in ["\"abc", "r#\"abc\"", "/* abc", "'", "b", "'\\"] {
            assert_eq!(code_of(source).chars().count(), source.chars().count());
        }
    }
}
