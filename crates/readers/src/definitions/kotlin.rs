//! What the grammar of Kotlin wants and the language does not: a line break or a semicolon after each member of a class.

/// What a declaration on the line of another one may begin with.
const BEGINNINGS: &str = "abstract class companion const constructor data enum fun init inline inner interface internal \
                          lateinit object open override private protected public sealed suspend typealias val var";

/// Texts that are no code: what begins and what ends them.
const TEXTS: [(&[u8], &[u8]); 6] =
    [(b"\"\"\"", b"\"\"\""), (b"\"", b"\""), (b"'", b"'"), (b"`", b"`"), (b"//", b"\n"), (b"/*", b"*/")];

/// The source with these semicolons, everything on the line where it was.
pub(super) fn with_semicolons(source: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(source.len() + 1024);
    // What ends the text that is read, and the texts around it: `"${ "inner" }"`, each with the braces that are open in it.
    let (mut until, mut around) = (None::<&[u8]>, Vec::<(&[u8], usize)>::new());
    // The last byte of code on this line that is not blank.
    let (mut last, mut rest) = (b'\n', source);
    while let Some(&next) = rest.first() {
        let mut length = 1;
        match until {
            Some(b"\n") if next == b'\n' => (until, length) = (None, 0),
            // It was not closed.
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
                let word = rest.split(|it| !it.is_ascii_alphabetic()).next().unwrap_or_default();
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
                    _ if last == b'}' && (next == b'@' || BEGINNINGS.split(' ').any(|it| it.as_bytes() == word)) => {
                        text.push(b';');
                    }
                    _ => {}
                }
                if let Some(&(begin, end)) = begun {
                    (until, length) = (Some(end), begin.len());
                }
                last = match next {
                    b' ' | b'\t' | b'\r' | b'/' => last,
                    // What follows an arrow may be nothing.
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
