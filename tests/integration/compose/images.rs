//! The images that projects run: built once for all of them. What is in them, and what is not.

use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use openskill_tests::containers::{debian_or_skip, docker, lock};
use openskill_tests::require::{Need, skip};
use openskill_tests::{binary, gateway_binary, repository};

use super::path;

/// The exit code of `deploy/compose.sh` where Docker or Compose is missing.
const NOT_AVAILABLE: i32 = 3;

/// The images of the programs under test. The suite removes them, so that all its tests use the same; without it, each test
/// builds and removes its own.
pub(crate) struct Images {
    tag: String,
    are_shared: bool,
}

/// The tag of the images that the tests of a suite share.
const VARIABLE: &str = "OPENSKILL_TEST_IMAGES";

/// Held while images are built or removed: a build fails if layers that it shares are removed meanwhile.
pub(crate) fn lock_builds() -> File {
    lock("images")
}

impl Images {
    /// The images, or none after the test was skipped.
    pub(super) fn or_skip() -> Option<Self> {
        if !debian_or_skip() {
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let shared = std::env::var(VARIABLE).ok();
        let are_shared = shared.is_some();
        let own = || format!("openskilltest{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let images = Self { tag: shared.unwrap_or_else(own), are_shared };
        // Dropped before `images`, which takes the same lock when it is dropped.
        let _building = lock_builds();
        if are_shared && images.exist() {
            return Some(images);
        }
        let built = images.build("worker");
        let stderr = String::from_utf8_lossy(&built.stderr);
        if built.status.code() == Some(NOT_AVAILABLE) {
            skip(Need::Compose, stderr.trim());
            return None;
        }
        assert!(built.status.success(), "{stderr}");
        Some(images)
    }

    /// The images that the tests of a suite share, if one of them has built them.
    pub(crate) fn built() -> Option<Self> {
        let images = Self { tag: std::env::var(VARIABLE).ok()?, are_shared: true };
        images.exist().then_some(images)
    }

    fn exist(&self) -> bool {
        self.names().iter().all(|it| docker(&["image", "inspect", it]).is_ok())
    }

    /// Builds the gateway's image and one of the workers'. The engine keeps what both have in common.
    fn build(&self, worker: &str) -> Output {
        let mut script = Command::new(repository().join("deploy/compose.sh"));
        self.configure(script.arg("build").env("WORKER_TARGET", worker).env("OPENSKILL_BINARY", binary()));
        script.stdin(Stdio::null()).output().unwrap()
    }

    /// Sets what makes a script build these images.
    pub(crate) fn configure(&self, script: &mut Command) {
        script
            .env("PATH", path())
            .env("OPENSKILL_TAG", &self.tag)
            .envs(gateway_binary().map(|it| ("OPENSKILL_GATEWAY_BINARY", it)));
    }

    /// Builds the worker's image with Chromium too.
    pub(super) fn have_a_browser(&self) {
        let _building = lock_builds();
        if docker(&["image", "inspect", &format!("openskill-worker-browser:{}", self.tag)]).is_ok() {
            return;
        }
        let built = self.build("worker-browser");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    fn names(&self) -> [String; 2] {
        ["gateway", "worker"].map(|it| format!("openskill-{it}:{}", self.tag))
    }

    pub(super) fn are_small_labelled_and_bare(&self) {
        let [gateway, worker] = self.names();
        for image in [&gateway, &worker] {
            let label = |name: &str| {
                let format = format!("{{{{ index .Config.Labels \"org.opencontainers.image.{name}\" }}}}");
                docker(&["image", "inspect", "--format", &format, image]).unwrap()
            };
            assert_eq!(label("licenses"), "Apache-2.0");
            assert!(!label("title").is_empty() && !label("version").is_empty(), "{image}");
            assert_eq!(docker(&["image", "inspect", "--format", "{{.Config.User}}", image]).unwrap(), "10001:10001");
        }
        let files = files(&gateway);
        let has = |name: &str| files.iter().any(|it| it.ends_with(&format!("/{name}")) || it == name);
        assert!(has("openskill") && has("ca-certificates.crt"), "{files:?}");
        for name in ["sh", "bash", "dash", "busybox", "python3", "perl", "apt-get", "dpkg"] {
            assert!(!has(name), "the gateway's image has {name}");
        }
        assert!(files.len() < 60, "{files:?}");
        let run =
            |script: &str| docker(&["run", "--rm", "--network", "none", "--entrypoint", "sh", &worker, "-c", script]);
        assert!(run("python3 -c 'import ssl, sqlite3' && test -w /app/data && test -w /app/tools").is_ok());
        assert!(run("test -w /app/worker/skills || test -w /usr/local/bin").is_err(), "a skill could change what runs");
        assert!(run("command -v apt-get || command -v dpkg").is_err(), "the worker's image can install packages");
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        if self.are_shared {
            return;
        }
        let _building = lock_builds();
        let [gateway, worker] = self.names();
        let browser = format!("openskill-worker-browser:{}", self.tag);
        let _ = docker(&["image", "rm", "-f", &gateway, &worker, &browser]);
        // The stages of their builds.
        let _ = docker(&["image", "prune", "-f", "--filter", "label=openskill.stage"]);
    }
}

/// The files of an image, without folders and what the engine adds.
fn files(image: &str) -> Vec<String> {
    let container = docker(&["create", image]).unwrap();
    let listed = std::process::Command::new("sh")
        .args(["-c", &format!("docker export {container} | tar t")])
        .output()
        .map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    docker(&["rm", &container]).unwrap();
    listed.unwrap().lines().filter(|it| !it.ends_with('/')).map(str::to_owned).collect()
}
