//! The reason why a server cannot be used. Keeps openskill's text and the server's text separate.

use std::fmt;

/// The reason why a connection failed. People see both texts. The log contains only openskill's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectError {
    ours: String,
    theirs: String,
}

impl ConnectError {
    /// Creates an error that ends with the server's text.
    pub(super) fn with_server_text(ours: &str, theirs: String) -> Self {
        Self { ours: ours.to_owned(), theirs }
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
        Self { ours: ours.into(), theirs: String::new() }
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
        let why = ConnectError::with_server_text("it refused the handshake", "token s3cr3t".to_owned());
        assert_eq!(why.to_string(), "it refused the handshake: token s3cr3t");
        assert_eq!((why.ours(), why.said_bytes()), ("it refused the handshake", 12));
        assert_eq!(ConnectError::from("it ended").to_string(), "it ended");
    }
}
