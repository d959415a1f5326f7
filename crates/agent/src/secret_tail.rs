//! Text that comes in pieces, without secrets: one may be split over several.

use crate::secrets::Secrets;

/// What is held back of a text, since a secret may begin there.
#[derive(Debug, Default)]
pub(crate) struct Tail(String);

impl Tail {
    /// Adds a piece, and returns what can be shown.
    pub(crate) fn push(&mut self, piece: &str, secrets: &Secrets) -> String {
        self.0.push_str(piece);
        let end = self.0.floor_char_boundary(self.0.len() - secrets.begun_at_end(&self.0));
        let rest = self.0.split_off(end);
        secrets.conceal(&std::mem::replace(&mut self.0, rest))
    }

    /// The rest: nothing follows.
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
