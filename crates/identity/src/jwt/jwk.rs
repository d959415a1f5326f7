//! Public keys (JWK and JWKS, RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

use super::algorithm::Algorithm;

/// The maximum size of a key set document, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;

/// The maximum number of keys in a document.
const MAX_KEYS: usize = 100;

/// The minimum length of an RSA modulus, in bytes: 2048 bits.
const MIN_RSA_BYTES: usize = 256;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The key id that tokens contain.
    pub id: Option<String>,
    /// The only algorithm that may use the key, if the document names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed curve point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Parses a key set. Skips keys for other uses, such as encryption, and keys of unknown types. An empty result
/// means that no key is usable.
///
/// # Errors
/// The document is malformed or too large.
pub fn parse(document: &[u8]) -> Result<Vec<PublicKey>, String> {
    if document.len() > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    let set: RawSet =
        serde_json::from_slice(document).map_err(|error| format!("it is not a JSON Web Key Set: {error}"))?;
    if set.keys.len() > MAX_KEYS {
        return Err(format!("it has more than {MAX_KEYS} keys"));
    }
    Ok(set.keys.into_iter().filter_map(|raw| key(serde_json::from_value(raw).ok()?)).collect())
}

fn key(raw: RawKey) -> Option<PublicKey> {
    let is_for_signatures = raw.purpose.as_deref().is_none_or(|it| it == "sig");
    let verifies = raw.key_ops.as_ref().is_none_or(|it| it.iter().any(|it| it == "verify"));
    if !is_for_signatures || !verifies {
        return None;
    }
    let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
    let point = |length: usize| {
        let (x, y) = (bytes(&raw.x)?, bytes(&raw.y)?);
        (x.len() == length && y.len() == length).then(|| [&[4], &x[..], &y].concat())
    };
    let material = match (raw.kty.as_str(), raw.crv.as_deref()) {
        ("RSA", _) => {
            let (modulus, exponent) = (bytes(&raw.n)?, bytes(&raw.e)?);
            // Some issuers write a leading zero, which is not part of the number.
            let modulus = modulus.into_iter().skip_while(|it| *it == 0).collect::<Vec<_>>();
            (modulus.len() >= MIN_RSA_BYTES).then_some(Material::Rsa { modulus, exponent })?
        }
        ("EC", Some("P-256")) => Material::P256(point(32)?),
        ("EC", Some("P-384")) => Material::P384(point(48)?),
        ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(&raw.x).filter(|it| it.len() == 32)?),
        _ => return None,
    };
    // A key for an unknown algorithm is unusable.
    let algorithm = raw.alg.map(|name| name.parse()).transpose().ok()?;
    Some(PublicKey { id: raw.kid, algorithm, material })
}

impl PublicKey {
    /// Whether the key can verify signatures of this algorithm.
    pub fn is_for(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let fits = match &self.material {
            Material::Rsa { .. } => matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            Material::P256(_) => algorithm == Es256,
            Material::P384(_) => algorithm == Es384,
            Material::Ed25519(_) => algorithm == EdDsa,
        };
        fits && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Whether `signed` is this key's signature of the message.
    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> bool {
        if !self.is_for(algorithm) {
            return false;
        }
        let verified = match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signed)
            }
            Material::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signed)
            }
            Material::P384(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point).verify(message, signed)
            }
            Material::Ed25519(point) => UnparsedPublicKey::new(&signature::ED25519, point).verify(message, signed),
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_without_usable_keys_is_a_set_and_what_is_no_set_is_none() {
        for set in [
            r#"{"keys": []}"#,
            r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}]}"#,
            r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "enc", "x": "AAAA"}, {}, 1, null]}"#,
            r#"{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}], "more": 1}"#,
        ] {
            assert_eq!(parse(set.as_bytes()), Ok(Vec::new()), "{set}");
        }
        for no_set in ["", "{", r#"{"keys": ["#, "{}", "[]", "null", r#"{"keys": null}"#, r#"{"keys": {}}"#, "<html>"] {
            assert!(parse(no_set.as_bytes()).is_err(), "{no_set}");
        }
    }
}
