//! Removes secrets from text that arrives in pieces, even if a secret is split across pieces.

use crate::secrets::Secrets;

/// The withheld end of the text, in which a secret may begin.
#[derive(Debug, Default)]
pub(crate) struct Tail(String);

impl Tail {
    /// Appends a piece. Returns the text that is safe to show.
    pub(crate) fn push(&mut self, piece: &str, secrets: &Secrets) -> String {
        self.0.push_str(piece);
        let end = self.0.floor_char_boundary(self.0.len() - secrets.begun_at_end(&self.0));
        let rest = self.0.split_off(end);
        secrets.conceal(&std::mem::replace(&mut self.0, rest))
    }

    /// Returns the remaining text.
    pub(crate) fn end(self, secrets: &Secrets) -> String {
        secrets.conceal(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_comes_in_pieces_is_not_shown() {
        let secrets = Secrets::default();
        secrets.keep("q1/a", "hunter2-x".to_owned());
        let mut tail = Tail::default();
        let pieces = ["it is h", "unt", "er2-", "x, and hunt", "ing"];
        let mut shown: Vec<_> = pieces.iter().map(|it| tail.push(it, &secrets)).collect();
        shown.push(tail.end(&secrets));
        assert_eq!(shown.concat(), "it is [secret q1/a], and hunting");
        assert_eq!(shown[0], "it is ");
    }
}
