//! The public-key signature algorithms (RFC 7518, RFC 8037).

use std::str::FromStr;

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the standards")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

/// All algorithms by name.
const NAMES: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::Rs256),
    ("RS384", Algorithm::Rs384),
    ("RS512", Algorithm::Rs512),
    ("PS256", Algorithm::Ps256),
    ("PS384", Algorithm::Ps384),
    ("PS512", Algorithm::Ps512),
    ("ES256", Algorithm::Es256),
    ("ES384", Algorithm::Es384),
    ("EdDSA", Algorithm::EdDsa),
];

impl Algorithm {
    /// The algorithms that an issuer may use if the file lists none.
    pub const DEFAULT: [Self; 3] = [Self::Rs256, Self::Es256, Self::EdDsa];
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text).map(|(_, it)| *it);
        found.ok_or_else(|| {
            let known = NAMES.map(|(name, _)| name).join(", ");
            format!("'{text}' is not an algorithm with public keys: {known}")
        })
    }
}
