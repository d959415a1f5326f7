//! Installs an environment's packages with uv or pip. Each step is a supervised process.
//!
//! An installer runs with the worker's permissions and without a jail, because it needs the network and its own
//! configuration. So by default it only unpacks wheels: building a package from source would run that package's code.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use openskill_sandbox::launch::Launcher;
use openskill_sandbox::protocol::{Command, Exit, ProcessLimits};
use openskill_sandbox::run::{Finished, run};

use super::reason::{full_disk, reason};
use super::recipe::Recipe;
use super::requirements::{RequirementSet, read_lines};
use crate::config::{Index, Installer, NO_WHEEL_FOLDER, PythonPackages};
use crate::environment::path_text;
use crate::events::EventSink;
use crate::manifest::python::{PYPROJECT, UV_LOCK};
use crate::runners::python::interpreter::version_of;

/// The maximum number of an installer's open files.
const OPEN_FILES: u64 = 4096;

/// The worker's variables that an installer gets: its configuration, the network's configuration, and locations.
const PASSED_ON: &str = include_str!("installer_variables.txt");
const PASSED_ON_BY_PREFIX: [&str; 3] = ["PIP_", "UV_", "XDG_"];

/// The package installer that this worker uses.
#[derive(Debug, Clone)]
pub(super) enum PackageInstaller {
    /// uv, at this path.
    Uv(PathBuf),
    Pip,
}

impl PackageInstaller {
    /// Selects the installer that the settings name.
    ///
    /// # Errors
    /// Fails if the settings select uv, and it is not found.
    pub(super) fn find(wanted: Installer) -> Result<Self, String> {
        let uv = || {
            let folders = std::env::var_os("PATH")?;
            std::env::split_paths(&folders).map(|folder| folder.join("uv")).find(|it| it.is_file())
        };
        match wanted {
            Installer::Pip => Ok(Self::Pip),
            Installer::Auto => Ok(uv().map_or(Self::Pip, Self::Uv)),
            Installer::Uv => uv().map(Self::Uv).ok_or_else(|| {
                "this worker has no uv on its PATH, which OPENSKILL_PYTHON_INSTALLER asks for".to_owned()
            }),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Uv(_) => "uv",
            Self::Pip => "pip",
        }
    }
}

/// The pip that installs an environment's packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pip {
    /// The pip of the interpreter that creates the environment.
    OfBase,
    Own,
}

/// The oldest pip version that can install into another environment (`--python`).
const PIP_FOR_OTHERS: (u32, u32) = (22, 3);

/// Parses the output of `pip --version`.
fn pip_version(text: &str) -> Option<(u32, u32)> {
    version_of(text.strip_prefix("pip ")?)
}

/// Returns whether an interpreter can install packages with pip: its own, or one for each environment.
pub(super) fn has_pip(python: &Path) -> bool {
    let program = "import sys; from importlib.util import find_spec as f; sys.exit(not (f('pip') or f('ensurepip')))";
    let asked = std::process::Command::new(python).args(["-I", "-c", program]).stdin(Stdio::null()).output();
    asked.is_ok_and(|it| it.status.success())
}

/// An environment to create.
pub(super) struct InstallJob<'a> {
    pub(super) tool: &'a PackageInstaller,
    pub(super) recipe: &'a Recipe,
    pub(super) settings: &'a PythonPackages,
    /// The folder to create it in. Must not exist yet.
    pub(super) folder: &'a Path,
}

impl InstallJob<'_> {
    /// Creates the environment. Dropping the future stops the installer.
    ///
    /// # Errors
    /// Returns the reason, for people, if the environment can't be created.
    pub(super) async fn run(&self, launcher: &Launcher) -> Result<(), String> {
        if self.settings.wheel_folder().is_some_and(|it| !it.is_dir()) {
            return Err(NO_WHEEL_FOLDER.to_owned());
        }
        let pip = self.base_pip(launcher).await;
        self.step(launcher, self.creation(pip)).await?;
        // Temporary files are on the same disk and are removed with the folder.
        std::fs::create_dir_all(self.temp()).map_err(|error| storage(&error))?;
        let requirements = self.folder.join("requirements.txt");
        match &self.recipe.wanted {
            RequirementSet::Lines(lines) => {
                std::fs::write(&requirements, lines.join("\n") + "\n").map_err(|error| storage(&error))?;
            }
            RequirementSet::Lock { project, lock } => {
                let PackageInstaller::Uv(uv) = self.tool else {
                    return Err(format!(
                        "its {UV_LOCK} needs uv: install uv on this worker, or name a requirements file"
                    ));
                };
                let folder = self.temp();
                let written = std::fs::write(folder.join(PYPROJECT), project)
                    .and_then(|()| std::fs::write(folder.join(UV_LOCK), lock));
                written.map_err(|error| storage(&error))?;
                // The author's project must not configure the installer.
                let options = "export --no-config --quiet --frozen --no-dev --no-emit-project --no-header";
                let mut args: Vec<_> = options.split(' ').map(str::to_owned).collect();
                args.extend(texts(&["--project", &path_text(&folder), "--output-file", &path_text(&requirements)]));
                self.step(launcher, (uv.clone(), args)).await?;
                check_export(&requirements)?;
            }
        }
        self.step(launcher, self.installation(pip, &requirements)).await?;
        let removed = std::fs::remove_dir_all(self.temp()).and_then(|()| std::fs::remove_file(requirements));
        removed.map_err(|error| storage(&error))
    }

    fn temp(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Selects the pip to use. An environment gets its own pip only if necessary, because creating it takes longer
    /// than installing most packages.
    async fn base_pip(&self, launcher: &Launcher) -> Pip {
        if matches!(self.tool, PackageInstaller::Uv(_)) {
            return Pip::OfBase;
        }
        let line = (self.recipe.base.path.clone(), texts(&["-I", "-m", "pip", "--version"]));
        let asked = self.output(launcher, line).await;
        let version = asked.ok().and_then(|it| pip_version(&String::from_utf8_lossy(&it.stdout)));
        if version >= Some(PIP_FOR_OTHERS) { Pip::OfBase } else { Pip::Own }
    }

    /// Returns the command that creates an environment without packages.
    fn creation(&self, pip: Pip) -> (PathBuf, Vec<String>) {
        let (base, folder) = (path_text(&self.recipe.base.path), path_text(self.folder));
        match self.tool {
            PackageInstaller::Uv(uv) => (uv.clone(), texts(&["venv", "--quiet", "--python", &base, &folder])),
            PackageInstaller::Pip => {
                let without = if pip == Pip::OfBase { "--without-pip" } else { "--clear" };
                (self.recipe.base.path.clone(), texts(&["-I", "-m", "venv", without, &folder]))
            }
        }
    }

    /// Returns the command that installs the packages.
    fn installation(&self, pip: Pip, requirements: &Path) -> (PathBuf, Vec<String>) {
        let (python, requirements) = (self.folder.join("bin/python"), path_text(requirements));
        let (program, mut args) = match (self.tool, pip) {
            (PackageInstaller::Uv(uv), _) => {
                let python = path_text(&python);
                (uv.clone(), texts(&["pip", "install", "--quiet", "--compile-bytecode", "--python", &python]))
            }
            (PackageInstaller::Pip, Pip::Own) => (python, texts(&["-I", "-m", "pip", "install"])),
            (PackageInstaller::Pip, Pip::OfBase) => {
                let python = path_text(&python);
                (self.recipe.base.path.clone(), texts(&["-I", "-m", "pip", "--python", &python, "install"]))
            }
        };
        if matches!(self.tool, PackageInstaller::Pip) {
            args.extend(texts(&["--quiet", "--no-input", "--disable-pip-version-check", "--no-color"]));
        }
        args.extend(texts(&["--requirement", &requirements]));
        if !self.recipe.source_builds {
            args.extend(texts(&["--only-binary", ":all:"]));
        }
        if self.recipe.require_hashes {
            args.push("--require-hashes".to_owned());
        }
        if self.settings.index == Index::None {
            args.push("--no-index".to_owned());
        }
        if let Some(folder) = self.settings.wheel_folder() {
            args.extend(["--find-links".to_owned(), path_text(folder)]);
        }
        (program, args)
    }

    async fn step(&self, launcher: &Launcher, line: (PathBuf, Vec<String>)) -> Result<(), String> {
        let finished = self.output(launcher, line).await?;
        if finished.exit == Exit::Code(0) {
            return Ok(());
        }
        let output = [finished.stdout, finished.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).join("\n");
        tracing::debug!(output, "an installer failed");
        let text = |path: Option<&Path>| path.map(path_text).unwrap_or_default();
        let (new, store) = (text(self.folder.file_name().map(Path::new)), text(self.folder.parent()));
        let wheels = text(self.settings.wheel_folder());
        Err(reason(self.tool.name(), &output, &[&store, &new, &wheels, &path_text(&self.recipe.base.path)]))
    }

    async fn output(&self, launcher: &Launcher, (program, args): (PathBuf, Vec<String>)) -> Result<Finished, String> {
        let unlimited = u64::MAX;
        let command = Command {
            program,
            args,
            env: self.environment(self.settings.variables.all()),
            cwd: self.folder.parent().unwrap_or(Path::new("/")).to_owned(),
            limits: ProcessLimits {
                address_space_bytes: unlimited,
                cpu_seconds: unlimited,
                open_files: OPEN_FILES,
                file_size_bytes: unlimited,
                processes: unlimited,
            },
            nice: 0,
            forks: false,
            jail: None,
            root: None,
        };
        let finished = run(launcher, &command, &[], &EventSink::default(), ()).await;
        finished.map_err(|error| format!("{} {error}", self.tool.name()))
    }

    /// Returns an installer's variables: some of the worker's, and the settings. URLs are variables, because a
    /// command line would reveal a password in a URL.
    fn environment(&self, all: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
        let is_named = |name: &str| PASSED_ON.lines().any(|it| it == name);
        let passed = |name: &str| is_named(name) || PASSED_ON_BY_PREFIX.iter().any(|it| name.starts_with(it));
        let mut env: BTreeMap<_, _> = all.filter(|(name, _)| passed(name)).collect();
        if let (PackageInstaller::Uv(_), Index::Configured) = (self.tool, &self.settings.index) {
            // uv does not read pip's variables.
            let uv_has = env.contains_key("UV_DEFAULT_INDEX") || env.contains_key("UV_INDEX_URL");
            let url = env.get("PIP_INDEX_URL").filter(|_| !uv_has).cloned();
            env.extend(url.map(|url| ("UV_DEFAULT_INDEX".to_owned(), url)));
        }
        if let Index::Url(url) = &self.settings.index {
            // Use only this index, so that another index can't replace its packages.
            for name in ["UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"] {
                env.remove(name);
            }
            for name in ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"] {
                env.insert(name.to_owned(), url.clone());
            }
        }
        if let Some(page) = self.settings.wheel_page() {
            for name in ["PIP_FIND_LINKS", "UV_FIND_LINKS"] {
                env.insert(name.to_owned(), page.to_owned());
            }
        }
        let own = [
            ("PIP_USER", "0"),
            ("PIP_ROOT_USER_ACTION", "ignore"),
            // Use only files in this folder, to which only the worker writes.
            ("UV_LINK_MODE", "copy"),
            ("UV_PYTHON_DOWNLOADS", "never"),
            ("UV_NO_PROGRESS", "1"),
            ("NO_COLOR", "1"),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if self.temp().is_dir() {
            env.insert("TMPDIR".to_owned(), path_text(&self.temp()));
        }
        env
    }
}

/// Checks requirements that uv exported from a lock file, because a lock file may contain paths and URLs.
fn check_export(requirements: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(requirements).map_err(|error| storage(&error))?;
    let lines = read_lines(&text).map_err(|reason| format!("{reason} (from {UV_LOCK})"))?;
    std::fs::write(requirements, lines.join("\n") + "\n").map_err(|error| storage(&error))
}

/// Explains for people why an environment's file can't be written.
pub(super) fn storage(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full_disk(),
        _ => format!("the directory of environments (OPENSKILL_PYTHON_ENVIRONMENTS) can't be used: {error}"),
    }
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| (*it).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config::{AllowList, Builds, Variables};
    use crate::runners::python::interpreter::Interpreter;

    fn settings(index: Index) -> PythonPackages {
        PythonPackages {
            store: None,
            installer: Installer::Auto,
            index,
            find_links: Some("/srv/wheels".to_owned()),
            for_sessions: AllowList::default(),
            build_timeout: Duration::from_secs(1),
            keep: None,
            builds: Builds::All,
            variables: Variables::default(),
            progress: |_| {},
        }
    }

    fn interpreter() -> Interpreter {
        let (path, prefixes) = (PathBuf::from("/usr/bin/python3"), vec![PathBuf::from("/usr")]);
        Interpreter { path, version: (3, 12), prefixes, tag: String::new(), environment: None, has_sdk: false }
    }

    fn with_job<T>(
        tool: &PackageInstaller,
        settings: &PythonPackages,
        source_builds: bool,
        look: impl Fn(&InstallJob<'_>) -> T,
    ) -> T {
        let (skill, key, base) = (String::new(), String::new(), Arc::new(interpreter()));
        let wanted = RequirementSet::Lines(Vec::new());
        let recipe = Recipe { skill, key, base, wanted, source_builds, require_hashes: true };
        look(&InstallJob { tool, recipe: &recipe, settings, folder: Path::new("/store/.new-key") })
    }

    #[test]
    fn by_default_no_code_of_a_package_runs_while_it_is_installed() {
        for tool in [PackageInstaller::Uv("/bin/uv".into()), PackageInstaller::Pip] {
            let line = |source_builds| {
                with_job(&tool, &settings(Index::None), source_builds, |job| {
                    job.installation(Pip::OfBase, Path::new("requirements.txt")).1.join(" ")
                })
            };
            assert!(line(false).contains("--only-binary :all:"), "{}", line(false));
            assert!(!line(true).contains("--only-binary"), "{}", line(true));
            assert!(line(false).contains("--require-hashes"), "{}", line(false));
            assert!(line(false).contains("--no-index --find-links /srv/wheels"), "{}", line(false));
        }
    }

    #[test]
    fn what_a_lock_names_beside_packages_of_the_index_is_refused() {
        let file = std::env::temp_dir().join(format!("openskill-export-{}", std::process::id()));
        for (line, wanted) in [
            ("-e ./evil", Some("option")),
            ("evil @ https://elsewhere/evil.whl", Some("path or URL")),
            ("a==1 \\\n    --hash=sha256:00\n    # via b", None),
        ] {
            std::fs::write(&file, line).unwrap();
            let checked = check_export(&file);
            match wanted {
                Some(word) => assert!(checked.as_ref().unwrap_err().contains(word), "{checked:?}"),
                None => assert_eq!(checked, Ok(())),
            }
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_pip_that_installs_into_other_environments_is_told_by_its_version() {
        assert_eq!(pip_version("pip 23.2.1 from /usr/lib (python 3.11)"), Some((23, 2)));
        assert_eq!(pip_version("pip 25.0 from /usr/lib"), Some((25, 0)));
        assert_eq!(pip_version("No module named pip"), None);
    }

    #[test]
    fn an_installer_sees_its_own_configuration_and_no_secret_of_the_worker() {
        let worker = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "s3cret"),
            ("PIP_INDEX_URL", "https://ann:pw@host/simple"),
            ("PIP_EXTRA_INDEX_URL", "https://elsewhere/simple"),
        ];
        let worker = worker.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let uv = PackageInstaller::Uv("/bin/uv".into());
        let env = with_job(&uv, &settings(Index::Configured), false, |job| job.environment(worker.clone().into_iter()));
        assert_eq!(env["UV_DEFAULT_INDEX"], "https://ann:pw@host/simple", "uv takes pip's index");
        assert!(!env.contains_key("OPENAI_API_KEY"));
        let own = settings(Index::Url("https://own/simple".to_owned()));
        let env = with_job(&PackageInstaller::Pip, &own, false, |job| job.environment(worker.clone().into_iter()));
        assert_eq!((env["PIP_INDEX_URL"].as_str(), env["PATH"].as_str()), ("https://own/simple", "/bin"));
        assert!(!env.contains_key("PIP_EXTRA_INDEX_URL"), "it would be searched too");
    }
}
