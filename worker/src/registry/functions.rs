//! Reads Python files whose functions are skills, by the decorator `@skill` of the Python library.
//!
//! A short-lived Python process parses the text of a file. It imports nothing of it and runs none of it. It returns
//! the keys of manifests with their lines, which then go through the same parser and rules as a manifest's file.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openskill_sandbox::strays::Strays;
use serde::Deserialize;
use serde_json::Value;

use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Rules, RunnerSpec};
use crate::runners::python::interpreter::{self, Interpreter};

/// The program that parses a file. It limits its own CPU time and memory.
const PROGRAM: &str = include_str!("functions/reader.py");

/// The maximum size of a file whose functions are read, in bytes.
pub(crate) const MAX_SCRIPT_BYTES: u64 = 512 * 1024;

/// The maximum size of the program's answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum time to parse one file. The program's limit of CPU time is shorter, so a slow file exceeds that one, and
/// only a slow machine exceeds this one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts Python processes that read functions.
pub(crate) struct FunctionReader {
    /// The interpreter, or the reason why there is none. Searched for when the first file has functions.
    interpreter: OnceLock<Result<PathBuf, String>>,
    /// The operator's choice of an interpreter.
    wanted: Option<PathBuf>,
    /// Tracks the worker's children.
    strays: Option<Arc<Strays>>,
    /// The maximum time to parse one file.
    pub(super) timeout: Duration,
}

/// The functions of one file that are skills.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct FileFunctions {
    skills: Vec<SkillFunction>,
    problems: Vec<FunctionProblem>,
    /// The modules that the file imports, by their first name.
    #[serde(default)]
    modules: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct SkillFunction {
    function: String,
    line: usize,
    keys: Vec<ManifestKey>,
}

/// A top-level key of the manifest that a function means.
#[derive(Debug, Clone, Deserialize)]
struct ManifestKey {
    key: String,
    value: Value,
    line: usize,
}

/// The reason why a function is not a skill.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FunctionProblem {
    /// Empty if the whole file can't be read.
    pub(crate) function: String,
    pub(crate) line: usize,
    pub(crate) reason: String,
}

/// The manifest of a function, with the line of the function.
#[derive(Debug, Clone)]
pub(crate) struct FunctionManifest {
    pub(crate) line: usize,
    pub(crate) manifest: Manifest,
}

impl FunctionManifest {
    /// Returns the name of the function.
    pub(crate) fn function(&self) -> &str {
        match &self.manifest.how {
            RunnerSpec::Python(python) => python.function.as_deref().unwrap_or_default(),
            _ => "",
        }
    }
}

/// Returns whether a file may have functions that are skills. Python decides.
pub(crate) fn may_have_functions(text: &str) -> bool {
    let is_import = |line: &str| {
        let names = line.strip_prefix("from openskill_sdk import");
        names.is_some_and(|names| names.split([' ', ',', '(', ')']).any(|name| name == "skill"))
    };
    let is_decorator = |line: &str| {
        let line = line.trim_start();
        // Without the import, so that its lack can be reported.
        line.starts_with("@skill") || line.starts_with('@') && text.contains("openskill_sdk")
    };
    text.lines().any(|line| is_import(line) || is_decorator(line))
}

impl FunctionReader {
    /// Creates the reader of a command.
    pub(crate) fn new(wanted: Option<&Path>) -> Self {
        Self { interpreter: OnceLock::new(), wanted: wanted.map(Path::to_owned), strays: None, timeout: TIMEOUT }
    }

    /// Creates the reader of a worker, which knows its interpreter and kills children that it does not know.
    pub(crate) fn for_worker(interpreter: Option<&Interpreter>, strays: Arc<Strays>) -> Self {
        let found = interpreter.map(|it| it.path.clone()).ok_or_else(|| "this worker has no Python".to_owned());
        Self { interpreter: OnceLock::from(found), wanted: None, strays: Some(strays), timeout: TIMEOUT }
    }

    /// Reads the functions in the text of a file. Blocks until Python has parsed it. If there is no Python, or if it
    /// can't parse the text, this is a problem of the file, because another attempt would fail as well.
    ///
    /// # Errors
    /// Fails if the process can't be started now, or the machine is too slow at the moment.
    pub(crate) fn read(&self, file: &Path, text: &str) -> Result<FileFunctions, ManifestError> {
        let name = file.file_name().unwrap_or_default();
        let explain = |reason: &str| format!("its functions cannot be read: {reason}");
        let find = || interpreter::find(self.wanted.as_deref()).map(|it| it.path).map_err(|error| error.to_string());
        let python = match self.interpreter.get_or_init(find) {
            Ok(python) => python,
            Err(reason) => return Ok(FileFunctions::unreadable(explain(reason))),
        };
        let mut command = Command::new(python);
        command.args(["-I", "-S", "-B", "-X", "utf8", "-c", PROGRAM]).arg(name).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = match &self.strays {
            Some(strays) => strays.start(|| {
                let child = command.spawn()?;
                let pid = child.id();
                Ok((child, Some(pid)))
            }),
            None => command.spawn(),
        };
        let mut child = child.map_err(|error| ManifestError::new(file, 1, explain(&error.to_string())))?;
        let answer = answer(&mut child, text, self.timeout);
        // It has answered, or must not continue.
        let _ = child.kill();
        let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        if let Some(strays) = &self.strays {
            strays.forget(child.id());
        }
        let Some(answer) = answer else {
            let reason = format!("Python did not parse the file within {} s", self.timeout.as_secs());
            return Err(ManifestError::new(file, 1, explain(&reason)));
        };
        Ok(serde_json::from_slice(&answer).unwrap_or_else(|_| {
            FileFunctions::unreadable(explain(&format!("Python could not parse the file and ended with {status}")))
        }))
    }
}

/// Gives the process the text, and returns what it prints within the limits. Returns `None` if it takes too long.
fn answer(child: &mut Child, text: &str, timeout: Duration) -> Option<Vec<u8>> {
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    std::thread::scope(|scope| {
        // Fails if the process ends early.
        scope.spawn(move || drop(stdin.write_all(text.as_bytes())));
        let (sender, receiver) = sync_channel(1);
        scope.spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
        let answer = receiver.recv_timeout(timeout).ok();
        // Ends the threads, because the process has no children.
        let _ = child.kill();
        answer
    })
}

impl FileFunctions {
    /// Returns what is known of a file that can't be read.
    fn unreadable(reason: String) -> Self {
        let problem = FunctionProblem { function: String::new(), line: 1, reason };
        Self { problems: vec![problem], ..Self::default() }
    }

    /// Returns whether no function of the file is a skill, so that it is a plain script.
    pub(crate) fn is_empty(&self) -> bool {
        self.skills.is_empty() && self.problems.is_empty()
    }

    /// Returns the modules that the file imports, by their first name.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(String::as_str)
    }

    /// Takes over the modules of the last version if Python can't parse this one, which probably imports them too.
    pub(crate) fn inherit_modules(&mut self, last: Self) {
        if self.modules.is_empty() && !self.problems.is_empty() {
            self.modules = last.modules;
        }
    }

    /// Parses the manifests of the functions. The toolset of those that name none is that of `rules`, or else the file.
    pub(crate) fn resolve(&self, file: &Path, rules: Rules<'_>) -> (Vec<FunctionManifest>, Vec<FunctionProblem>) {
        let (mut manifests, mut problems) = (Vec::new(), self.problems.clone());
        for skill in &self.skills {
            let document = skill.document(file, rules);
            let parsed = if document.len() as u64 > MAX_MANIFEST_BYTES {
                Err(ManifestError::new(file, 1, format!("its manifest is over {MAX_MANIFEST_BYTES} bytes")))
            } else {
                Manifest::parse(file, &document, rules)
            };
            match parsed {
                Ok(manifest) => manifests.push(FunctionManifest { line: skill.line, manifest }),
                Err(error) => {
                    // The document has one key per line.
                    let line =
                        error.line.checked_sub(1).and_then(|at| skill.keys.get(at)).map_or(skill.line, |it| it.line);
                    let reason = format!("{}: {}", skill.function, error.reason);
                    problems.push(FunctionProblem { function: skill.function.clone(), line, reason });
                }
            }
        }
        (manifests, problems)
    }

    /// Returns the manifests that the functions mean, unchecked.
    pub(crate) fn documents(&self, file: &Path) -> Vec<Value> {
        let document = |skill: &SkillFunction| Value::Object(skill.entries(file, true).collect());
        self.skills.iter().map(document).collect()
    }
}

impl SkillFunction {
    /// Returns the keys of its manifest. `is_toolset`: whether the file is the toolset of functions that name none.
    fn entries(&self, file: &Path, is_toolset: bool) -> impl Iterator<Item = (String, Value)> {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_named = self.keys.iter().any(|it| it.key == "toolset");
        let toolset = (is_toolset && !is_named).then(|| ("toolset".to_owned(), stem.into()));
        self.keys.iter().map(|it| (it.key.clone(), it.value.clone())).chain(toolset)
    }

    /// Returns its manifest as text, with one key per line.
    fn document(&self, file: &Path, rules: Rules<'_>) -> String {
        self.entries(file, rules.toolset.is_none())
            .map(|(key, value)| format!("{}: {value}\n", Value::String(key)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "/skills/texts.py";
    const HEAD: &str = "from openskill_sdk import skill\n";

    fn read(body: &str) -> (Vec<FunctionManifest>, Vec<FunctionProblem>) {
        let (file, text) = (Path::new(FILE), format!("{HEAD}{body}"));
        assert!(may_have_functions(&text), "{text}");
        let rules = Rules { allowed_root: Path::new("/"), toolset: None };
        FunctionReader::new(None).read(file, &text).unwrap().resolve(file, rules)
    }

    #[test]
    fn a_function_means_a_manifest() {
        let (manifests, problems) =
            read("@skill(read_only=True, timeout=2)\ndef shout(text: str, times: int = 1):\n    'Shouts.'\n");
        assert!(problems.is_empty(), "{problems:?}");
        let FunctionManifest { line, manifest } = &manifests[0];
        assert_eq!((*line, manifest.id.as_str(), manifest.toolset.as_str()), (3, "shout", "texts"));
        assert_eq!((manifest.description.as_str(), manifest.timeout_ms), ("Shouts.", Some(2000)));
        assert!(manifest.tool_hints.read_only);
        let properties = json!({"text": {"type": "string"}, "times": {"type": "integer", "default": 1}});
        assert_eq!(manifest.input_schema.as_ref().unwrap()["properties"], properties);
        let RunnerSpec::Python(python) = &manifest.how else { panic!("{:?}", manifest.how) };
        assert_eq!((python.function.as_deref(), python.script.as_path()), (Some("shout"), Path::new(FILE)));
    }

    #[test]
    fn what_a_manifest_may_not_say_is_a_problem_at_its_line() {
        for (body, line, word) in [
            ("@skill(\n  isolation='thread',\n)\ndef f(): pass\n", 3, "thread"),
            ("@skill(\n  colour='red')\ndef f(): pass\n", 3, "colour"),
            ("@skill\ndef Shout(): pass\n", 3, "not a valid skill id"),
            ("@skill\ndef f(\n  a: Order): pass\n", 4, "Order"),
            ("@skill\ndef f(:\n", 3, "not Python"),
        ] {
            let (manifests, problems) = read(body);
            assert!(manifests.is_empty(), "{body}");
            assert!(problems[0].line == line && problems[0].reason.contains(word), "{body}{problems:?}");
        }
    }

    #[test]
    fn a_decorator_that_is_not_imported_is_a_problem() {
        let read = FunctionReader::new(None).read(Path::new(FILE), "@skill(timeout=2)\ndef f(): pass\n").unwrap();
        assert!(read.problems[0].reason.contains("`from openskill_sdk import skill`"), "{read:?}");
    }

    #[test]
    fn a_misspelled_decorator_is_a_problem_and_imports_are_told() {
        let (reader, file) = (FunctionReader::new(None), Path::new(FILE));
        let read = reader.read(file, &format!("{HEAD}@skil\ndef f(): pass\n")).unwrap();
        assert!(read.problems[0].reason.contains("decorates no function"), "{read:?}");
        let read = reader.read(file, &format!("import a.b, os\nfrom . import c\n{HEAD}@skill\ndef f(): pass\n"));
        assert_eq!(read.unwrap().modules, ["a", "c", "openskill_sdk", "os"]);
    }

    #[test]
    fn a_file_that_only_looks_alike_is_a_script() {
        let text = "import openskill_sdk\n@print\ndef f(): pass\n";
        assert!(FunctionReader::new(None).read(Path::new(FILE), text).unwrap().is_empty());
        for binds in ["from other import skill\n", "from other import *\n", "def skill(it): pass\n"] {
            let text = format!("{binds}@skill\ndef f(): pass\n");
            assert!(FunctionReader::new(None).read(Path::new(FILE), &text).unwrap().is_empty(), "{text}");
        }
        assert!(!may_have_functions("from openskill_sdk import run\nrun(print)\n"));
        assert!(may_have_functions("from openskill_sdk import skill\nif True:\n    @skill\n    def f(): pass\n"));
    }

    #[test]
    fn nothing_of_a_file_runs_and_what_takes_too_long_is_a_problem() {
        let mark = std::env::temp_dir().join(format!("openskill-ran-{}", std::process::id()));
        let text =
            format!("{HEAD}open({:?}, 'w')\n@skill\ndef f(a: int = open('/x')): pass\n", mark.display().to_string());
        assert_eq!(FunctionReader::new(None).read(Path::new(FILE), &text).unwrap().skills.len(), 1);
        assert!(!mark.exists());
        let deep = format!("{HEAD}@skill\ndef f(a={}1): pass\n", "-".repeat(200_000));
        let read = FunctionReader::new(None).read(Path::new(FILE), &deep).unwrap();
        assert!(read.skills.is_empty() && read.problems.len() == 1, "{read:?}");
    }

    #[test]
    fn why_python_did_not_parse_a_file_is_a_problem_of_the_file() {
        for (interpreter, said) in [
            (Ok(PathBuf::from("/bin/false")), "ended with exit status: 1"),
            (Err("this worker has no Python".to_owned()), "no Python"),
        ] {
            let reader = FunctionReader { interpreter: OnceLock::from(interpreter), ..FunctionReader::new(None) };
            let read = reader.read(Path::new(FILE), HEAD).unwrap();
            assert!(!read.is_empty() && read.problems[0].reason.contains(said), "{read:?}");
        }
    }
}
