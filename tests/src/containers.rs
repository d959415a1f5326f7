//! Containers for tests: an image made of this machine's shell, and queries to the engine.
//!
//! Nothing is pulled or compiled. Without an engine a test is skipped.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::folder::Folder;
use crate::repository;
use crate::require::{Need, skip};
use crate::wait::until_true;

/// The programs in the image. `sh` is one whose builtins know `printf` and `read`.
const PROGRAMS: [&str; 4] = ["sh", "cat", "sleep", "env"];

/// An image with a shell, removed after the last test that uses it.
#[derive(Debug)]
pub struct Image {
    /// `sha256:...`
    pub id: String,
}

impl Image {
    /// The image, or none after the test was skipped.
    pub fn or_skip() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Image>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = shared.upgrade() {
            return Some(image);
        }
        let version = docker(&["version", "--format", "{{.Server.Version}}"]);
        if let Err(reason) = version {
            let advice = "install and start one: apt-get install docker.io";
            skip(Need::Docker, &format!("no container engine answers ({reason}); {advice}"));
            return None;
        }
        let image = Arc::new(Self { id: import(&PROGRAMS.map(find), &[]) });
        *shared = Arc::downgrade(&image);
        Some(image)
    }

    /// An image with other programs of this machine, such as `nginx`, at `/bin`. None if one of them is not here.
    pub fn of(programs: &[&str]) -> Option<Self> {
        let found: Option<Vec<_>> = programs.iter().map(|name| locate(name)).collect();
        Some(Self { id: import(&found?, &[]) })
    }

    /// An image that runs a program, whatever its arguments.
    pub fn running(program: &Path) -> Self {
        Self::running_beside(program, &[])
    }

    /// The same with other programs beside it, for a script.
    pub fn running_beside(program: &Path, others: &[&str]) -> Self {
        let name = program.file_name().unwrap().to_string_lossy();
        let programs: Vec<_> = others.iter().map(|it| find(it)).chain([program.to_owned()]).collect();
        Self { id: import(&programs, &["--change", &format!("ENTRYPOINT [\"/bin/{name}\"]")]) }
    }

    /// The manifest of a skill that runs a shell script.
    pub fn skill(&self, id: &str, script: &str, more: &str) -> String {
        self.with_settings(id, &format!("command: [/bin/sh, -c, {}]", quoted(script)), more)
    }

    /// The manifest of a skill with these container settings, and more keys.
    pub fn with_settings(&self, id: &str, settings: &str, more: &str) -> String {
        format!("id: {id}\ntype: docker\nentry: {}\ndocker: {{{settings}}}\n{more}\n", self.id)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = docker(&["image", "rm", "--force", &self.id]);
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Runs the docker command line. Returns its output, or its error.
pub fn docker(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("docker").args(arguments).stdin(Stdio::null()).output().map_err(|it| it.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A small Debian with Python, as an image of this name.
pub const DEBIAN: &str = "debian:bookworm-slim";

/// Makes [`DEBIAN`] if it is missing, which takes a minute once: nothing can be pulled where tests run. False after the test
/// was skipped, as no engine answers.
pub fn debian_or_skip() -> bool {
    if let Err(reason) = docker(&["version", "--format", "{{.Server.Version}}"]) {
        let advice = "install and start one: apt-get install docker.io";
        skip(Need::Docker, &format!("no container engine answers ({reason}); {advice}"));
        return false;
    }
    // One of the tests makes it, the others wait for it.
    let _making = lock("base-image");
    let script = repository().join("deploy/make-base-image.sh");
    let made = Command::new(script).arg(DEBIAN).stdin(Stdio::null()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}

/// Locks `name` against other tests, also in other processes, until it is dropped.
pub fn lock(name: &str) -> File {
    let folder = repository().join("target");
    std::fs::create_dir_all(&folder).unwrap();
    let file = File::create(folder.join(format!("test-{name}.lock"))).unwrap();
    file.lock().unwrap();
    file
}

/// The names of the containers, running or not, with this label.
pub fn labelled(label: &str) -> Vec<String> {
    let filter = format!("label={label}");
    let names = docker(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"]).unwrap();
    names.lines().map(str::to_owned).collect()
}

/// The containers of a skill.
pub fn of_skill(id: &str) -> Vec<String> {
    labelled(&format!("openskill.skill={id}"))
}

/// Waits until a skill has no container.
pub async fn gone(id: &str, within: Duration) {
    until_true(&format!("the containers of {id} are removed"), within, || of_skill(id).is_empty()).await;
}

/// `changes`: further arguments of `docker import`.
fn import(programs: &[PathBuf], changes: &[&str]) -> String {
    let folder = Folder::new();
    for name in ["bin", "tmp", "etc", "proc", "sys", "dev", "data"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    // The engine gives a tmpfs the mode of the folder that it covers.
    std::fs::set_permissions(folder.path().join("tmp"), PermissionsExt::from_mode(0o1777)).unwrap();
    for program in programs {
        copy(program, &folder.path().join("bin").join(program.file_name().unwrap()));
        for library in libraries(program) {
            copy(&library, &folder.path().join(library.strip_prefix("/").unwrap()));
        }
    }
    let mut tar = Command::new("tar")
        .args(["--numeric-owner", "--owner=0", "--group=0", "-c", "-C"])
        .arg(folder.path())
        .arg(".")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let made =
        Command::new("docker").arg("import").args(changes).arg("-").stdin(tar.stdout.take().unwrap()).output().unwrap();
    assert!(tar.wait().unwrap().success() && made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

fn find(name: &str) -> PathBuf {
    locate(name).unwrap_or_else(|| panic!("{name} was not found"))
}

/// Where a program is. Those of administrators are not on everybody's `PATH`.
pub fn locate(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    let more = ["/bin", "/usr/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|it| it.join(name)).find(|it| it.is_file())
}

/// The shared libraries of a program and its loader; none for a static one.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter(|it| it.starts_with('/')).map(PathBuf::from).filter(|it| it.is_file()).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
}
