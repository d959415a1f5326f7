//! API keys: who a request is from, and what that allows.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use http::Method;
use openskill_tests::binary;
use openskill_tests::folder::Folder;
use openskill_tests::rest::{self, Answer};
use openskill_tests::system::{Setup, System};
use tonic::Request;

mod access;
mod administration;
mod bound;
mod command_line;
mod limits;
mod mcp;
mod validity;

/// A file of keys.
pub(crate) struct Keys(Folder);

impl Keys {
    pub(crate) fn new() -> Self {
        let keys = Self(Folder::new());
        keys.write("");
        keys
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("keys.toml")
    }

    fn write(&self, text: &str) {
        let path = self.0.write("keys.toml", text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.arg("keys").args(arguments).arg("--file").arg(self.path()).env_clear();
        command.current_dir(self.0.path()).output().unwrap()
    }

    /// A new key of a principal.
    pub(crate) fn create(&self, principal: &str, flags: &[&str]) -> String {
        let ran = self.run(&[&["create", "--principal", principal], flags].concat());
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    fn revoke(&self, key: &str) {
        let ran = self.run(&["revoke", id(key)]);
        assert!(ran.status.success(), "{ran:?}");
    }

    /// The misbehaving skills, for callers with keys.
    pub(crate) fn up(&self) -> Setup {
        Setup::up().with("OPENSKILL_KEYS", self.path().display())
    }
}

/// The public part of a key.
fn id(key: &str) -> &str {
    key.split('_').nth(1).unwrap()
}

/// A message from the owner of a key.
pub(crate) fn from<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

pub(crate) async fn get(system: &System, key: &str, path: &str) -> Answer {
    let authorization = format!("Bearer {key}");
    rest::send(system.address, Method::GET, path, &[("authorization", &authorization)], "").await
}

pub(crate) async fn post(system: &System, key: &str, path: &str, body: &str) -> Answer {
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    system.post(path, &headers, body.to_owned()).await
}
