//! Works around the Kotlin grammar, which requires a line break or a semicolon after each member of a class. The
//! language does not require either.

/// Words that may begin a declaration on the same line as the previous declaration.
const BEGINNINGS: &str = "abstract class companion const constructor data enum fun init inline inner interface internal \
                          lateinit object open override private protected public sealed suspend typealias val var";

/// The delimiters of strings, quoted names and comments.
const TEXTS: [(&[u8], &[u8]); 6] =
    [(b"\"\"\"", b"\"\"\""), (b"\"", b"\""), (b"'", b"'"), (b"`", b"`"), (b"//", b"\n"), (b"/*", b"*/")];

/// Inserts these semicolons into the source without changing line numbers.
pub(super) fn with_semicolons(source: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(source.len() + 1024);
    // The end mark of the current string or comment, and the enclosing strings, as in `"${ "inner" }"`, each with
    // its number of open braces.
    let (mut until, mut around) = (None::<&[u8]>, Vec::<(&[u8], usize)>::new());
    // The last byte of code on this line, ignoring blanks.
    let (mut last, mut rest) = (b'\n', source);
    while let Some(&next) = rest.first() {
        let mut length = 1;
        match until {
            Some(b"\n") if next == b'\n' => (until, length) = (None, 0),
            // An unclosed string ends with its line.
            Some([_]) if next == b'\n' => until = None,
            Some([b'"' | b'\'']) if next == b'\\' => length = 2.min(rest.len()),
            Some(end) if rest.starts_with(end) => (until, length) = (None, end.len()),
            Some(end @ [b'"', ..]) if rest.starts_with(b"${") => {
                around.push((end, 0));
                (until, last, length) = (None, b'{', 2);
            }
            Some(_) => {}
            None => {
                let begun = TEXTS.iter().find(|(begin, _)| rest.starts_with(begin));
                let begins_declaration = || {
                    let word = rest.split(|it| !it.is_ascii_alphabetic()).next().unwrap_or_default();
                    next == b'@' || BEGINNINGS.split(' ').any(|it| it.as_bytes() == word)
                };
                match (next, around.last_mut()) {
                    (b'{', Some((_, open))) => *open += 1,
                    (b'}', Some((end, 0))) => {
                        until = Some(*end);
                        around.pop();
                    }
                    (b'}', inside) => {
                        inside.into_iter().for_each(|(_, open)| *open -= 1);
                        if !b"{;,\n".contains(&last) {
                            text.push(b';');
                        }
                    }
                    _ if last == b'}' && begins_declaration() => text.push(b';'),
                    _ => {}
                }
                if let Some(&(begin, end)) = begun {
                    (until, length) = (Some(end), begin.len());
                }
                last = match next {
                    b' ' | b'\t' | b'\r' | b'/' => last,
                    // Nothing needs to follow the arrow of a lambda or of a branch, so the arrow counts as an
                    // opening brace.
                    b'>' if last == b'-' => b'{',
                    _ => next,
                };
            }
        }
        text.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    text
}
