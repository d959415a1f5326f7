//! Why a server can't be used: in our words, and apart from them in those of the server.

use std::fmt;

/// A reason. People see all of it; the log has our words only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Why {
    ours: String,
    theirs: String,
}

impl Why {
    /// A reason that ends with what the server said.
    pub(super) fn said(ours: &str, theirs: String) -> Self {
        Self { ours: ours.to_owned(), theirs }
    }

    /// Our part.
    pub(super) fn ours(&self) -> &str {
        &self.ours
    }

    /// The length of the server's part.
    pub(super) fn said_bytes(&self) -> usize {
        self.theirs.len()
    }
}

impl<T: Into<String>> From<T> for Why {
    fn from(ours: T) -> Self {
        Self { ours: ours.into(), theirs: String::new() }
    }
}

impl fmt::Display for Why {
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
        let why = Why::said("it refused the handshake", "token s3cr3t".to_owned());
        assert_eq!(why.to_string(), "it refused the handshake: token s3cr3t");
        assert_eq!((why.ours(), why.said_bytes()), ("it refused the handshake", 12));
        assert_eq!(Why::from("it ended").to_string(), "it ended");
    }
}
