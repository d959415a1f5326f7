//! The credentials that a request presents.

use openskill_identity::key::PresentedKey;

/// The credential that a request presents.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Credentials<'a> {
    /// An API key.
    Key(PresentedKey),
    /// Possibly a signed token: three parts separated by dots.
    Token(&'a [u8]),
}

impl<'a> Credentials<'a> {
    /// Reads the value of an `authorization` header. None if the format is unknown.
    pub(crate) fn read(value: &'a [u8]) -> Option<Self> {
        const SCHEME: &[u8] = b"bearer ";
        let (scheme, token) = value.split_at_checked(SCHEME.len())?;
        let is_bearer = scheme.eq_ignore_ascii_case(SCHEME);
        if !is_bearer {
            return None;
        }
        let token = token.trim_ascii();
        let is_token = || token.iter().filter(|it| **it == b'.').count() == 2;
        PresentedKey::parse(token).map(Self::Key).or_else(|| is_token().then_some(Self::Token(token)))
    }
}

#[cfg(test)]
mod tests {
    use openskill_identity::key::NewKey;

    use super::*;

    #[test]
    fn a_bearer_token_is_read_and_nothing_else() {
        let key = NewKey::generate().text;
        for value in [format!("Bearer {key}"), format!("bearer  {key}")] {
            assert!(Credentials::read(value.as_bytes()).is_some(), "{value}");
        }
        for value in
            [key.clone(), format!("Basic {key}"), "Bearer ".to_owned(), format!("Bearer {key} x"), String::new()]
        {
            assert!(Credentials::read(value.as_bytes()).is_none(), "{value}");
        }
    }
}
