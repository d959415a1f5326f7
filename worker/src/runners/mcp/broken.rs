//! Recovers what it can from an invalid message. Pure.
//!
//! A server that sends a broken answer does not send another one, so its call need not wait for its deadline. A
//! line that may be anything, such as a log line on the wrong stream, does not end a call.

/// The properties of the intended message, as far as the top-level keys of the line show them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remains {
    /// Whether it was meant to be a JSON-RPC message.
    pub(super) is_rpc: bool,
    /// Whether it was meant to be a request or a notification.
    pub(super) has_method: bool,
    /// The request id, if it is a number, as all our ids are.
    pub(super) id: Option<i64>,
}

impl Remains {
    /// Scans a line, which may be invalid JSON, from its first brace.
    pub(super) fn parse(line: &[u8]) -> Self {
        let mut found = Self::default();
        let mut rest = line.iter().position(|byte| *byte == b'{').map_or(&[][..], |at| &line[at..]);
        let mut depth = 0_u32;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let (text, after) = string(rest);
                    rest = after;
                    if depth == 1
                        && let Some(value) = after.trim_ascii_start().strip_prefix(b":")
                    {
                        found.note(text, value.trim_ascii_start());
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Returns whether the line was meant to be the answer to a request.
    pub(super) fn is_answer(&self) -> bool {
        self.is_rpc && !self.has_method
    }

    fn note(&mut self, key: &[u8], value: &[u8]) {
        match key {
            b"jsonrpc" => self.is_rpc = true,
            b"method" => self.has_method = true,
            b"id" => self.id = self.id.or_else(|| number(value)),
            _ => {}
        }
    }
}

/// Splits at the closing quote of a string. An unterminated string extends to the end of the line.
fn string(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    });
    end.map_or((text, &[]), |at| (&text[..at], &text[at + 1..]))
}

/// Parses an integer, which may be in quotes.
fn number(value: &[u8]) -> Option<i64> {
    let digits = value.strip_prefix(b"\"").unwrap_or(value);
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (bool, Option<i64>) {
        let found = Remains::parse(line.as_bytes());
        (found.is_answer(), found.id)
    }

    #[test]
    fn the_id_of_a_broken_answer_is_found() {
        for line in [
            r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"te"#,
            r#"{"jsonrpc": "2.0", "id" : 5, "result": nonsense}"#,
            r#"{"jsonrpc":"2.0","result":{"id":7,"text":"\"id\":8"},"id":5,}"#,
            r#"{"jsonrpc":"2.0","id":"5","result":{}}"#,
            r#"INFO listening{"jsonrpc":"2.0","id":5}"#,
            r#"{"id":5,"jsonrpc":"2.0","result":{"method":"x"}} trailing"#,
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":\"\u{fffd}",
        ] {
            assert_eq!(read(line), (true, Some(5)), "{line}");
        }
    }

    #[test]
    fn an_answer_without_a_usable_id_has_none() {
        for line in [
            r#"{"jsonrpc":"2.0","result":{"id":7}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":"ask-5","result":1"#,
            r#"{"jsonrpc":"2.0","id":99999999999999999999,"result":1}"#,
        ] {
            assert_eq!(read(line), (true, None), "{line}");
        }
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for line in [
            "Starting server...",
            r#"{"level":"info","message":"ready","jsonrpc_port":1}"#,
            r#"{"not": "a message"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"ping"#,
            r#"["jsonrpc", {"jsonrpc": 1}"#,
            "{\"",
            "",
        ] {
            let found = Remains::parse(line.as_bytes());
            assert!(!found.is_answer() || line.starts_with('['), "{line}: {found:?}");
        }
    }
}
