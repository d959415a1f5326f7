//! Signed tokens: whose they are, which are refused, and how keys of issuers change.

use std::os::unix::fs::PermissionsExt as _;

use http::Method;
use openskill_tests::folder::Folder;
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{Setup, System};
use openskill_tests::tokens::{AUDIENCE, ISSUER};
use serde_json::Value;

mod refused;
mod rotated;
mod valid;

/// A file of issuers, with one whose keys are in a file beside it.
struct Issuers(Folder);

const RULES: &str = "
[[issuers.login.rules]]
claim = 'groups'
value = 'echoers'
policy = 'echo'

[[issuers.login.rules]]
claim = 'groups'
value = 'operators'
policy = 'operate'

[policies.echo]
skills = ['in_echo', 'in_wait']

[policies.operate]
skills = ['*']
admin = true
";

impl Issuers {
    fn with_keys(keys: &Value) -> Self {
        let issuers = Self(Folder::new());
        issuers.write_keys(keys);
        issuers.write("jwks = 'keys.json'", RULES);
        issuers
    }

    fn write(&self, keys: &str, rules: &str) {
        let text = format!(
            "[issuers.login]\nissuer = '{ISSUER}'\naudience = ['{AUDIENCE}']\nclock_skew_s = 0\n{keys}\n{rules}"
        );
        let path = self.0.write("jwt.toml.new", text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(path, self.0.path().join("jwt.toml")).unwrap();
    }

    fn write_keys(&self, keys: &Value) {
        let path = self.0.write("keys.json.new", keys.to_string());
        std::fs::rename(path, self.0.path().join("keys.json")).unwrap();
    }

    fn up(&self) -> Setup {
        Setup::up().with("OPENSKILL_JWT", self.0.path().join("jwt.toml").display())
    }
}

async fn get(system: &System, token: &str, path: &str) -> Answer {
    let authorization = format!("Bearer {token}");
    rest::send(system.address, Method::GET, path, &[("authorization", &authorization)], "").await
}

async fn status(system: &System, token: &str) -> u16 {
    get(system, token, "/skills/in_echo").await.status
}
