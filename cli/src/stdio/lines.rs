//! Reads lines of limited length from a stream.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The maximum length of a line, in bytes: the largest body that a gateway accepts, with a margin.
pub(super) const MAX_LINE: usize = 16 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    Text(String),
    /// A line that is too long or not UTF-8. It was skipped.
    Unusable,
}

/// Reads the next non-empty line, without its line break. Returns `None` at the end of the stream.
///
/// # Errors
/// The stream is unreadable.
pub(crate) async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<InputLine>> {
    loop {
        let (mut line, mut is_too_long) = (Vec::new(), false);
        let is_last = loop {
            let available = input.fill_buf().await?;
            if available.is_empty() {
                break true;
            }
            let end = available.iter().position(|it| *it == b'\n');
            let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            is_too_long |= line.len() + part.len() > MAX_LINE;
            if !is_too_long {
                line.extend_from_slice(part);
            }
            let used = end.map_or(available.len(), |end| end + 1);
            input.consume(used);
            if end.is_some() {
                break false;
            }
        };
        if is_too_long {
            return Ok(Some(InputLine::Unusable));
        }
        if !line.trim_ascii().is_empty() {
            let text = String::from_utf8(line).map_or(InputLine::Unusable, |it| InputLine::Text(it.trim().to_owned()));
            return Ok(Some(text));
        }
        if is_last {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &[u8]) -> Vec<InputLine> {
        let (mut input, mut lines) = (text, Vec::new());
        while let Some(line) = next(&mut input).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_end_with_their_stream_and_empty_ones_do_not_count() {
        let text = |it: &str| InputLine::Text(it.to_owned());
        assert_eq!(all(b"{}\n\r\n [1]\r\nlast").await, [text("{}"), text("[1]"), text("last")]);
        assert_eq!(all(b"\n\n").await, []);
    }

    #[tokio::test]
    async fn what_can_not_be_used_is_skipped_up_to_its_end() {
        let long = [vec![b'x'; MAX_LINE + 1], b"\n{}\n".to_vec()].concat();
        assert_eq!(all(&long).await, [InputLine::Unusable, InputLine::Text("{}".to_owned())]);
        assert_eq!(all(b"\xff\n").await, [InputLine::Unusable]);
    }
}
