//! Server-sent events, as far as MCP uses them: the data of each event is one message.

/// The longest message of a gateway, in bytes. A result has its data twice: as structured content, and as text.
pub(super) const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Reads events from the pieces of a body.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// What is not yet a line.
    rest: Vec<u8>,
    /// The data of the event that is being read.
    data: String,
}

/// A message is too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Events {
    /// The messages that end in this piece.
    ///
    /// # Errors
    /// A message is longer than [`MAX_MESSAGE`].
    pub(super) fn read(&mut self, piece: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut messages = Vec::new();
        for part in piece.split_inclusive(|it| *it == b'\n') {
            if self.rest.len() + self.data.len() + part.len() > MAX_MESSAGE {
                return Err(TooLong);
            }
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                messages.extend(self.line(&String::from_utf8_lossy(&line)));
            }
        }
        Ok(messages)
    }

    /// Takes one line. Returns the message that it ends.
    fn line(&mut self, line: &str) -> Option<String> {
        let line = line.trim_end_matches(['\r', '\n']);
        if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push(' ');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        if !line.is_empty() || self.data.is_empty() {
            return None;
        }
        Some(std::mem::take(&mut self.data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_the_body_is_cut() {
        let body = b": beat\n\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nid: 5\ndata:\n\ndata: [2]\n\n";
        for size in 1..body.len() {
            let mut events = Events::default();
            let found: Vec<_> = body.chunks(size).flat_map(|it| events.read(it).unwrap()).collect();
            assert_eq!(found, ["{\"a\": 1}", "[2]"], "{size}");
        }
    }

    #[test]
    fn an_endless_message_is_refused() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1024 * 1024];
        assert!((0..70).map(|_| events.read(&piece)).any(|it| it == Err(TooLong)));
    }
}
