//! Unpacks wheels in a jailed process, and checks the result before it is used.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openskill_proto::v1::SkillError;
use openskill_sandbox::jail::Network;
use openskill_sandbox::protocol::Exit;
use serde::Deserialize;
use serde_json::json;

use super::bounds::{MAX_UNPACKED_BYTES, MOST_FILES, storage, unfit};
use super::jailed::{JailedInterpreter, JailedStep, Jails};
use super::record::{FILES, Wheel};
use super::watch::within;
use super::work::Work;
use crate::config::allowed::{is_name, normalize_name};
use crate::environment::path_text;
use crate::runners::python::environments::reason::clean;

/// The source of the program that unpacks a wheel.
const PROGRAM: &str = include_str!("unpack.py");

/// The maximum number of modules in a wheel, and the maximum length of a module's name in bytes.
const MOST_MODULES: usize = 64;
const MAX_MODULE_BYTES: usize = 200;

/// The entries allowed per file of a wheel, because a file may add compiled code and folders.
const PER_FILE: u64 = 3;

/// A downloaded wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Downloaded {
    pub(super) file: PathBuf,
    /// The normalized package name.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
}

/// Parses a wheel's name and version from its file name: `name-version[-build]-python-abi-platform.whl`.
pub(super) fn parse_file_name(file: &Path) -> Option<(String, String)> {
    let parts: Vec<_> = file.file_name()?.to_str()?.strip_suffix(".whl")?.split('-').collect();
    let (name, version) = (*parts.first()?, *parts.get(1)?);
    let is_version = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '+' | '!');
    let fits = matches!(parts.len(), 5 | 6) && version.len() <= 100 && version.chars().all(is_version);
    (fits && is_name(name)).then(|| (normalize_name(name), version.replace('_', "-")))
}

/// What the unpacking process prints.
#[derive(Deserialize)]
struct UnpackReport {
    refused: Option<String>,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    left_out: u64,
}

/// Unpacks a wheel into the folder of its entry, and returns its record.
///
/// # Errors
/// Fails if the wheel is invalid or too large.
pub(super) async fn unpack(
    jails: &Jails,
    python: JailedInterpreter<'_>,
    wheel: &Downloaded,
    works: [&Arc<Work>; 2],
) -> Result<Wheel, SkillError> {
    let target = works[0].make(FILES).map_err(|error| storage(&error))?;
    let step = JailedStep {
        python,
        program: PROGRAM,
        args: Vec::new(),
        input: json!({
            "wheel": path_text(&wheel.file),
            "target": path_text(&target),
            "most_files": MOST_FILES,
            "most_bytes": MAX_UNPACKED_BYTES,
        }),
        env: [].into(),
        readable: vec![wheel.file.clone()],
        writable: Some(target.clone()),
        network: Network::None,
        most_file_bytes: MAX_UNPACKED_BYTES,
    };
    let running = jails.run(step, works.map(Arc::clone).into());
    let finished = within(&target, MAX_UNPACKED_BYTES * 2, running).await?;
    let refused = |reason: &str| {
        let Downloaded { name, version, .. } = wheel;
        unfit(format!("the wheel of {name} {version} is not installed: {reason}"))
    };
    let report =
        serde_json::from_slice::<UnpackReport>(&finished.stdout).ok().filter(|_| finished.exit == Exit::Code(0));
    let report = report.ok_or_else(|| refused("it can't be unpacked"))?;
    if let Some(reason) = report.refused {
        return Err(refused(&clean(&reason, &[])));
    }
    let taking_over = tokio::task::spawn_blocking(move || {
        let mut found = UnpackedSize::default();
        let owner = rustix::process::geteuid().is_root().then(|| rustix::process::getegid().as_raw());
        take_over(&target, owner, &mut found).map(|()| found)
    });
    let UnpackedSize { files, bytes } =
        taking_over.await.map_err(io::Error::other).flatten().map_err(|error| refused(&error.to_string()))?;
    let is_module =
        |it: &String| it.len() <= MAX_MODULE_BYTES && it.chars().all(|it| it.is_alphanumeric() || it == '_');
    let modules = report.modules.into_iter().filter(is_module).take(MOST_MODULES).collect();
    let Downloaded { name, version, sha256, .. } = wheel.clone();
    Ok(Wheel { name, version, sha256, modules, left_out: report.left_out, files, bytes })
}

/// The totals of the unpacked files.
#[derive(Debug, Default, PartialEq, Eq)]
struct UnpackedSize {
    files: u64,
    bytes: u64,
}

/// Checks everything that a jailed process created, and makes the worker its owner. Accepts only regular files and
/// folders; afterwards only the worker can change them. `owner`: the worker's group, if the worker is root and the
/// process was not.
fn take_over(folder: &Path, owner: Option<u32>, found: &mut UnpackedSize) -> io::Result<()> {
    let wrong = |reason: &str| io::Error::other(reason.to_owned());
    let own = |path: &Path, mode| {
        owner.map_or(Ok(()), |group| lchown(path, Some(0), Some(group)))?;
        fs::set_permissions(path, Permissions::from_mode(mode))
    };
    own(folder, 0o755)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let about = fs::symlink_metadata(&path)?;
        found.files += 1;
        found.bytes = found.bytes.saturating_add(about.len());
        if found.files > MOST_FILES * PER_FILE || found.bytes > MAX_UNPACKED_BYTES * 2 {
            return Err(wrong("it is too large when it is unpacked"));
        }
        if about.is_dir() {
            take_over(&path, owner, found)?;
        } else if about.is_file() && about.nlink() == 1 {
            own(&path, 0o444)?;
        } else {
            return Err(wrong("it has a link or a device"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_says_what_a_wheel_is() {
        let found = |name: &str| parse_file_name(Path::new(name));
        let wheel = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(found("/x/Foo_Bar-1.0-py3-none-any.whl"), wheel("foo-bar", "1.0"));
        assert_eq!(found("a-1.0+cpu-1-cp312-cp312-linux_x86_64.whl"), wheel("a", "1.0+cpu"));
        for wrong in ["a-1.0.tar.gz", "a.whl", "a-1.0-any.whl", "-1.0-py3-none-any.whl", "a-1$-py3-none-any.whl"] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_plain_files_and_folders_are_taken_over() {
        let top = std::env::temp_dir().join(format!("openskill-unpacked-{}", std::process::id()));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/c.py"), "xy").unwrap();
        fs::set_permissions(top.join("a/b/c.py"), Permissions::from_mode(0o6777)).unwrap();
        let mut found = UnpackedSize::default();
        take_over(&top, None, &mut found).unwrap();
        assert_eq!(found.files, 3);
        assert_eq!(fs::metadata(top.join("a/b/c.py")).unwrap().mode() & 0o7777, 0o444);
        std::os::unix::fs::symlink("/etc/passwd", top.join("a/link")).unwrap();
        assert!(take_over(&top, None, &mut UnpackedSize::default()).unwrap_err().to_string().contains("link"));
        fs::remove_file(top.join("a/link")).unwrap();
        fs::hard_link(top.join("a/b/c.py"), top.join("d.py")).unwrap();
        assert!(take_over(&top, None, &mut UnpackedSize::default()).is_err());
        fs::remove_dir_all(&top).unwrap();
    }
}
