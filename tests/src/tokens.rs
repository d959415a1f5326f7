//! Issuers of tokens: they sign what a test wants, also what no issuer should.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use ring::{hmac, signature};
use serde_json::{Value, json};

use crate::repository;

/// The issuer and the audience of all tokens, unless a test says otherwise.
pub const ISSUER: &str = "https://login.example";
pub const AUDIENCE: &str = "openskill";

/// A key that signs.
pub struct Signer {
    pub id: String,
    key: Key,
}

enum Key {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    /// RS256. All of them are one key, which protects nothing.
    pub fn rsa(id: &str) -> Self {
        let key = std::fs::read(repository().join("tests/fixtures/jwt/rsa.der")).unwrap();
        Self { id: id.to_owned(), key: Key::Rsa(Box::new(RsaKeyPair::from_pkcs8(&key).unwrap())) }
    }

    /// ES256, with a key of its own.
    pub fn p256(id: &str) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), key: Key::P256(key) }
    }

    /// EdDSA, with a key of its own.
    pub fn ed25519(id: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id: id.to_owned(), key: Key::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap()) }
    }

    pub fn algorithm(&self) -> &'static str {
        match &self.key {
            Key::Rsa(_) => "RS256",
            Key::P256(_) => "ES256",
            Key::Ed25519(_) => "EdDSA",
        }
    }

    /// The public key.
    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.key {
            Key::Rsa(key) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": self.id, "use": "sig", "n": text(&public.n), "e": text(&public.e)})
            }
            Key::P256(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": text(&point[1..33]), "y": text(&point[33..])})
            }
            Key::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": text(key.public_key().as_ref())})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
            Key::P256(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Key::Ed25519(key) => signature::Ed25519KeyPair::sign(key, message).as_ref().to_vec(),
        }
    }

    /// A token that says this.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm(), "kid": self.id, "typ": "JWT"}), claims)
    }

    /// The same with a header that a test chooses.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn message(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// A token that nobody signed.
pub fn unsigned(claims: &Value) -> String {
    format!("{}.", message(&json!({"alg": "none"}), claims))
}

/// A token signed with a secret.
pub fn hs256(key_id: &str, secret: &[u8], claims: &Value) -> String {
    let message = message(&json!({"alg": "HS256", "kid": key_id}), claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

/// A document of public keys.
pub fn jwks(signers: &[&Signer]) -> Value {
    json!({ "keys": signers.iter().map(|it| it.jwk()).collect::<Vec<_>>() })
}

/// Seconds since 1970, so many from now.
pub fn seconds(from_now: i64) -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 + from_now
}

/// The claims of a good token, with these in addition or instead. Null removes one.
pub fn claims(more: &Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "groups": ["echoers"], "iat": seconds(-1), "exp": seconds(600),
    });
    let all = claims.as_object_mut().unwrap();
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => drop(all.remove(name)),
            value => drop(all.insert(name.clone(), value.clone())),
        }
    }
    claims
}
