//! Rust source as plain code: comments and literals blanked out, every other byte where it was.

/// Blanks out comments, strings and characters.
pub(super) fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (bytes.to_vec(), 0);
    while at < bytes.len() {
        let end = match &bytes[at..] {
            [b'/', b'/', ..] => find(bytes, at, b"\n"),
            [b'/', b'*', ..] => find(bytes, at, b"*/") + 2,
            [b'"', ..] => end_of_string(bytes, at + 1),
            [b'r', b'"' | b'#', ..] if !is_word(bytes, at) => end_of_raw(bytes, at),
            [b'\'', ..] => end_of_character(bytes, at),
            _ => at,
        };
        let end = end.min(bytes.len());
        out[at..end].iter_mut().filter(|it| **it != b'\n').for_each(|it| *it = b' ');
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The same code without what is compiled for tests only: each item after a `#[cfg(test)]` is blanked out.
pub(super) fn production(code: &str) -> String {
    let mut code = code.to_owned();
    while let Some(begin) = code.find("#[cfg(test)]") {
        let end = begin + end_of_item(&code[begin..]);
        let blank = code[begin..end].replace(|it| it != '\n', " ");
        code.replace_range(begin..end, &blank);
    }
    code
}

/// Where an item ends: at its semicolon, or its last closing brace.
fn end_of_item(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, it) in item.char_indices() {
        match it {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    item.len()
}

fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> usize {
    bytes[from..].windows(wanted.len()).position(|it| it == wanted).map_or(bytes.len(), |at| from + at)
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// `r"..."`, `r#"..."#`. A raw identifier (`r#type`) is none.
fn end_of_raw(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|it| **it == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return at;
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    find(bytes, at + 2 + hashes, &end) + end.len()
}

/// A character, and not a lifetime.
fn end_of_character(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        return find(bytes, at + 3, b"'") + 1;
    }
    let width = bytes[at + 1..].iter().position(|it| *it == b'\'').unwrap_or(usize::MAX);
    let is_one = (1..=4).contains(&width)
        && std::str::from_utf8(&bytes[at + 1..at + 1 + width]).is_ok_and(|it| it.chars().count() == 1);
    if is_one { at + width + 2 } else { at }
}

fn is_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

#[test]
fn comments_and_literals_are_blanked_out() {
    for (text, expected) in [
        ("a // use b", "a         "),
        ("a /* b */ c", "a         c"),
        (r#"f("use \" b") c"#, "f(          ) c"),
        ("f('\"') c", "f(   ) c"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ("r#\"use \"x\" \"# b", "              b"),
        ("r#type b", "r#type b"),
    ] {
        assert_eq!(code(text).trim_end(), expected.trim_end(), "{text}");
    }
}

#[test]
fn what_is_compiled_for_tests_is_not_production() {
    let code = "a();\n#[cfg(test)]\nmod tests;\nb();\n#[cfg(test)]\nmod tests { fn f() { x } }\nc();";
    let words: Vec<_> = production(code).split_whitespace().map(str::to_owned).collect();
    assert_eq!(words, ["a();", "b();", "c();"]);
}
