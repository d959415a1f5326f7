//! Why a server can't be used.

use std::fmt;

/// The reason why a server can't be used, with openskill's text and the server's text kept separate. People see both
/// texts. The log contains only openskill's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectError {
    ours: String,
    theirs: String,
    /// Whether the server refused a request in its answer.
    pub(super) is_refusal: bool,
}

impl ConnectError {
    /// Creates the error for a server that refused a request. It ends with the server's text.
    pub(super) fn refusal(ours: &str, theirs: String) -> Self {
        Self { ours: ours.to_owned(), theirs, is_refusal: true }
    }

    /// Returns openskill's part of the message.
    pub(super) fn ours(&self) -> &str {
        &self.ours
    }

    /// Returns the length of the server's part of the message.
    pub(super) fn said_bytes(&self) -> usize {
        self.theirs.len()
    }
}

impl<T: Into<String>> From<T> for ConnectError {
    fn from(ours: T) -> Self {
        Self { ours: ours.into(), theirs: String::new(), is_refusal: false }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.theirs.as_str() {
            "" => formatter.write_str(&self.ours),
            theirs => write!(formatter, "{}: {theirs}", self.ours),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_what_the_server_said_and_the_log_how_much_it_was() {
        let why = ConnectError::refusal("it refused the handshake", "token s3cr3t".to_owned());
        assert_eq!(why.to_string(), "it refused the handshake: token s3cr3t");
        assert_eq!((why.ours(), why.said_bytes()), ("it refused the handshake", 12));
        assert_eq!(ConnectError::from("it ended").to_string(), "it ended");
    }
}
