//! A credential that cannot be printed.

use std::fmt;

/// A credential. Neither `Debug` nor anything else shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a credential, without the white space around it. None if nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The credential, for a header or to mask it.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new(" sk-very-secret\n").unwrap();
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(format!("{:#?}", Some(&secret)).matches("sk-").count(), 0);
        assert!(Secret::new(" \t").is_none());
    }
}
