//! Bytes as they come, taken apart at their newlines.

/// The longest line of either side.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Bytes as they come, taken apart at their newlines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// More bytes.
    ///
    /// # Errors
    /// The line they are part of is too long.
    pub(super) fn push(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        let begun = self.bytes.len() - self.bytes.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        if begun > MAX_LINE_BYTES { Err(std::io::Error::from(std::io::ErrorKind::InvalidData)) } else { Ok(()) }
    }

    /// The next whole line, without its newline.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|it| *it == b'\n')?;
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_come() {
        let mut lines = Lines::default();
        lines.push(b"e 1").unwrap();
        assert_eq!(lines.next(), None);
        lines.push(b" 2\ns 3 4\nx").unwrap();
        assert_eq!(lines.next().as_deref(), Some(&b"e 1 2"[..]));
        assert_eq!(lines.next().as_deref(), Some(&b"s 3 4"[..]));
        assert_eq!(lines.next(), None);
        assert!(lines.push(&[b'x'; MAX_LINE_BYTES]).is_err());
    }
}
