//! Reads virtual environments that users created. Their `pyvenv.cfg` names the interpreter that they belong to.

use std::path::{Path, PathBuf};

use openskill_sandbox::plain_file;

use crate::runners::python::interpreter::{Interpreter, has_sdk, version_of};

/// The maximum size of `pyvenv.cfg`, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Reads the environment without starting a process.
///
/// # Errors
/// Returns the reason, for people, if the folder is not a usable virtual environment.
pub(super) fn read(folder: &Path) -> Result<Interpreter, String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if !folder.is_dir() {
        return Err(format!("its virtual environment '{name}' does not exist: make it, or change python.venv"));
    }
    let config = plain_file::read_in_folder(&folder.join("pyvenv.cfg"), MAX_BYTES)
        .map_err(|error| format!("'{name}' is not a virtual environment: its pyvenv.cfg can't be read: {error}"))?;
    let value = |key: &str| {
        let pairs = config.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.trim(), value.trim())).find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let home = value("home").map(PathBuf::from).filter(|it| it.is_absolute());
    let version = value("version").or_else(|| value("version_info")).and_then(version_of);
    let (Some(home), Some(version)) = (home, version) else {
        return Err(format!("'{name}' is not a virtual environment: its pyvenv.cfg has no home or no version"));
    };
    let path = folder.join("bin/python");
    if !path.is_file() {
        return Err(format!(
            "the virtual environment '{name}' has no interpreter: the Python it was made with was removed"
        ));
    }
    if version < (3, 9) {
        return Err(format!(
            "the virtual environment '{name}' has Python {}.{}; 3.9 or newer is needed",
            version.0, version.1
        ));
    }
    // The libraries are next to the interpreter that the links lead to. Its folder may differ from `home`.
    let real = path.canonicalize().ok().and_then(|it| Some(it.parent()?.parent()?.to_owned()));
    let prefixes = home.parent().map(Path::to_owned).into_iter().chain(real).chain([folder.to_owned()]).collect();
    let has_sdk = has_sdk(folder, version);
    Ok(Interpreter { path, version, prefixes, tag: String::new(), environment: Some(folder.to_owned()), has_sdk })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Venv(PathBuf);

    impl Venv {
        fn new(name: &str, config: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("openskill-venv-{}-{name}", std::process::id()));
            std::fs::create_dir_all(folder.join("bin")).unwrap();
            std::fs::write(folder.join("pyvenv.cfg"), config).unwrap();
            Self(folder)
        }
    }

    impl Drop for Venv {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_venv_says_what_it_was_made_with() {
        let venv = Venv::new("good", "home = /opt/python/bin\nversion = 3.12.1\n");
        std::fs::write(venv.0.join("bin/python"), "").unwrap();
        let found = read(&venv.0).unwrap();
        assert_eq!(found.version, (3, 12));
        assert!(
            found.prefixes.contains(&PathBuf::from("/opt/python")) && found.prefixes.contains(&venv.0),
            "{found:?}"
        );
        assert_eq!(found.environment, Some(venv.0.clone()));
    }

    #[test]
    fn what_is_no_venv_is_refused_with_a_reason() {
        assert!(read(Path::new("/nonexistent/plot")).unwrap_err().contains("'plot' does not exist"));
        let gone = Venv::new("gone", "home = /opt/python/bin\nversion_info = 3.12.1\n");
        assert!(read(&gone.0).unwrap_err().contains("was removed"));
        let empty = Venv::new("empty", "");
        assert!(read(&empty.0).unwrap_err().contains("no home"));
        let old = Venv::new("old", "home = /opt/python/bin\nversion = 3.8.2\n");
        std::fs::write(old.0.join("bin/python"), "").unwrap();
        assert!(read(&old.0).unwrap_err().contains("3.9"));
    }
}
