//! A skill's manifest: what it is, how it runs, what it takes and gives. YAML or JSON, strictly read.
//!
//! Reading has two stages: [`raw`] is the file as written; [`Manifest`] is valid. Nothing here runs anything.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use openskill_proto::error::Meaning;
use openskill_proto::limits::MAX_TIMEOUT_MS;
use openskill_proto::v1::{ArgumentRules, CircuitRules, ErrorCode};
use serde_json::Value;

mod arguments;
mod circuit;
mod parameters;
mod raw;
mod schema;
mod toolset;

pub use raw::Limits;
pub use toolset::Toolset;

/// A valid manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// `^[a-z][a-z0-9_-]{0,63}$`
    pub id: String,
    /// Free text, `0.0.0` if not given.
    pub version: String,
    /// For a model that chooses among tools.
    pub description: String,
    /// `type:runtime`, such as `cli:python`. Empty if there is no implementation.
    pub runner: String,
    /// What to run, for runners that run a file: absolute. For others: as written.
    pub entry: Entry,
    /// The skill's own deadline, in milliseconds.
    pub timeout_ms: Option<u32>,
    /// The folder the skill may touch, if it is narrower than the worker's: absolute.
    pub allowed_root: Option<PathBuf>,
    /// JSON Schema 2020-12 of the arguments; none if the skill takes anything.
    pub input_schema: Option<Value>,
    /// What may be done to arguments that do not fit.
    pub argument_rules: ArgumentRules,
    /// JSON Schema 2020-12 of the data.
    pub output_schema: Option<Value>,
    /// A second identical call does no harm, so a lost call may be sent again.
    pub idempotent: bool,
    /// It may delete or overwrite things.
    pub destructive: bool,
    /// Calls of one session go to one worker.
    pub session_affinity: bool,
    /// When its circuits open, where that is its own affair.
    pub circuit_rules: Option<CircuitRules>,
    /// How many calls of this skill one worker runs at once.
    pub concurrency: Option<usize>,
    /// What the skill's process may use.
    pub limits: Limits,
    /// Names of the worker's environment variables that the skill may see.
    pub env: Vec<String>,
    /// The group the skill belongs to.
    pub toolset: String,
    /// Why the skill can't run, if its author says that it can't.
    pub unavailable: Option<String>,
    /// Calls with their expected ends; `openskill check` runs them.
    pub examples: Vec<Example>,
}

/// What a manifest's `entry` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A file: absolute, in the manifest's folder or below it.
    File(PathBuf),
    /// A name that the runner understands.
    Name(String),
    /// Nothing: the skill is declared and has no implementation.
    None,
}

/// A call with its expected end.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What it shows.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// The data it must give, if that is fixed.
    pub data: Option<Value>,
    /// The error it must end in.
    pub error: Option<&'static Meaning>,
}

/// Why a manifest can't be used, with the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {reason}", file.display())]
pub struct ManifestError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 1 if the trouble is no single line's.
    pub line: usize,
    /// What is wrong and what is asked for.
    pub reason: String,
}

/// What the worker decides for all its manifests.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// No skill may touch more than this.
    pub allowed_root: &'a Path,
    /// What the manifest's folder says for all its skills.
    pub toolset: Option<&'a Toolset>,
}

/// The largest manifest file that is read.
pub const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

/// The most calls of one skill at once that a manifest may ask for.
const MAX_CONCURRENCY: usize = 10_000;

/// The largest free text of a manifest, and all its examples together. YAML's aliases make much of little.
const MAX_TEXT_BYTES: usize = 16 * 1024;
const MAX_EXAMPLES_BYTES: usize = 128 * 1024;

/// Variables that openskill sets itself and no manifest may pass on.
const RESERVED_ENV: [&str; 4] = ["PATH", "LANG", "TRACEPARENT", "LD_PRELOAD"];

impl Manifest {
    /// Reads the text of a manifest file.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(file: &Path, text: &str, rules: Rules<'_>) -> Result<Self, ManifestError> {
        let fail = |line, reason| ManifestError { file: file.to_owned(), line, reason };
        let raw = raw::read(text).map_err(|(line, reason)| fail(line, reason))?;
        Self::resolve(raw, file, rules).map_err(|fault| fail(line_of(text, &fault.field), fault.reason))
    }

    /// A script with no manifest: served without a schema, under its file name.
    ///
    /// # Errors
    /// The file name is no skill id.
    pub fn for_bare_script(script: &Path) -> Result<Self, ManifestError> {
        let id = script.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !valid_id(id) {
            let reason = format!("'{id}' is no skill id: {ID_RULE}");
            return Err(ManifestError { file: script.to_owned(), line: 1, reason });
        }
        Ok(Self {
            id: id.to_owned(),
            version: raw::DEFAULT_VERSION.to_owned(),
            description: format!("The script {id}.py. It has no manifest, so its arguments are passed on unchecked."),
            runner: "cli:python".to_owned(),
            entry: Entry::File(script.to_owned()),
            timeout_ms: None,
            allowed_root: None,
            input_schema: None,
            argument_rules: ArgumentRules::default(),
            output_schema: None,
            idempotent: false,
            destructive: false,
            session_affinity: false,
            circuit_rules: None,
            concurrency: None,
            limits: Limits::default(),
            env: Vec::new(),
            toolset: String::new(),
            unavailable: None,
            examples: Vec::new(),
        })
    }

    /// About how many bytes the skill takes in a worker's state.
    pub(crate) fn description_size(&self) -> usize {
        let schema = |schema: &Option<Value>| schema.as_ref().map_or(0, |it| it.to_string().len());
        let examples: usize = self.examples.iter().map(|it| it.input.to_string().len()).sum();
        let aliases: usize = self.argument_rules.aliases.iter().map(|(alias, name)| alias.len() + name.len() + 8).sum();
        let texts = self.version.len() + self.toolset.len() + self.unavailable.as_ref().map_or(0, String::len);
        256 + aliases
            + texts
            + self.description.len()
            + schema(&self.input_schema)
            + schema(&self.output_schema)
            + examples
    }

    fn resolve(mut raw: raw::Raw, file: &Path, rules: Rules<'_>) -> Result<Self, Fault> {
        if !valid_id(&raw.id) {
            return Err(("id", format!("'{}' is no skill id: {ID_RULE}", raw.id)).into());
        }
        take_over(&mut raw, rules.toolset)?;
        let runner = if raw.runtime.is_empty() { raw.kind.clone() } else { format!("{}:{}", raw.kind, raw.runtime) };
        let entry = resolve_entry(&raw, file)?;
        let allowed_root = raw.allowed_root.as_deref().map(|root| resolve_root(root, rules)).transpose()?;
        let timeout_ms = raw.timeout_ms;
        if timeout_ms.is_some_and(|ms| ms == 0 || ms > MAX_TIMEOUT_MS) {
            return Err(("timeout_ms", format!("must be 1 to {MAX_TIMEOUT_MS}")).into());
        }
        if raw.concurrency.is_some_and(|limit| limit == 0 || limit > MAX_CONCURRENCY) {
            return Err(("concurrency", format!("must be 1 to {MAX_CONCURRENCY}")).into());
        }
        check_sizes(&raw)?;
        let (input_schema, aliases) = match (raw.input_schema, raw.parameters) {
            (Some(_), Some(_)) => {
                return Err(("parameters", "give input_schema or parameters, not both".to_owned()).into());
            }
            (None, Some(parameters)) => {
                let (schema, aliases) = parameters::to_schema(&parameters)?;
                (Some(schema), aliases)
            }
            (schema, None) => (schema, arguments::Aliases::new()),
        };
        let input_schema = input_schema.map(|it| schema::check("input_schema", it, true)).transpose()?;
        let output_schema = raw.output_schema.map(|it| schema::check("output_schema", it, false)).transpose()?;
        let argument_rules = arguments::resolve(raw.arguments, aliases, input_schema.as_ref(), raw.destructive)?;
        let examples = raw.examples.into_iter().map(resolve_example).collect::<Result<_, _>>()?;
        Ok(Self {
            id: raw.id,
            version: raw.version,
            description: raw.description,
            runner,
            entry,
            timeout_ms,
            allowed_root,
            input_schema,
            argument_rules,
            output_schema,
            idempotent: raw.idempotent,
            destructive: raw.destructive,
            session_affinity: raw.affinity == Some(raw::Affinity::Session),
            circuit_rules: raw.circuit.map(circuit::resolve).transpose()?,
            concurrency: raw.concurrency,
            limits: raw.limits,
            env: check_env(raw.env)?,
            toolset: raw.toolset,
            unavailable: raw.unavailable,
            examples,
        })
    }
}

const ID_RULE: &str = "a lower-case letter, then at most 63 of a-z 0-9 _ -";

/// What is wrong, and the key it is wrong with.
struct Fault {
    field: String,
    reason: String,
}

impl<F: Into<String>> From<(F, String)> for Fault {
    fn from((field, reason): (F, String)) -> Self {
        Self { field: field.into(), reason }
    }
}

fn valid_id(id: &str) -> bool {
    id.len() <= 64
        && id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}

/// What the folder says for all its skills. A manifest of a toolset's folder can't belong to another toolset.
fn take_over(raw: &mut raw::Raw, toolset: Option<&Toolset>) -> Result<(), (&'static str, String)> {
    let Some(toolset) = toolset else { return Ok(()) };
    if !raw.toolset.is_empty() && raw.toolset != toolset.toolset {
        return Err(("toolset", format!("its folder's toolset.yaml says '{}'", toolset.toolset)));
    }
    raw.toolset.clone_from(&toolset.toolset);
    raw.unavailable = raw.unavailable.take().or_else(|| toolset.unavailable.clone());
    Ok(())
}

/// A `cli` skill's entry is a file beside the manifest or below it; any other runner's is a name of its own.
fn resolve_entry(raw: &raw::Raw, file: &Path) -> Result<Entry, (&'static str, String)> {
    if raw.unavailable.is_some() && raw.entry.is_empty() {
        return Ok(Entry::None);
    }
    if raw.kind.is_empty() {
        return Err(("type", "type must be given, unless the skill is unavailable".to_owned()));
    }
    if raw.entry.is_empty() {
        return Err(("entry", "must not be empty".to_owned()));
    }
    if raw.kind != "cli" {
        return Ok(Entry::Name(raw.entry.clone()));
    }
    let entry = Path::new(&raw.entry);
    if !entry.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(("entry", "must be a relative path beside the manifest or below it, without '..'".to_owned()));
    }
    Ok(Entry::File(file.parent().unwrap_or(Path::new(".")).join(entry)))
}

/// `allowed_root` is written relative to the folder that holds the worker's root, as in `./data/docs`.
fn resolve_root(root: &str, rules: Rules<'_>) -> Result<PathBuf, (&'static str, String)> {
    let base = rules.allowed_root.parent().unwrap_or(rules.allowed_root);
    let resolved = base
        .join(root)
        .canonicalize()
        .map_err(|error| ("allowed_root", format!("'{root}' can't be used: {}", error.kind())))?;
    if !resolved.starts_with(rules.allowed_root) {
        return Err(("allowed_root", format!("'{root}' is outside the worker's allowed root")));
    }
    Ok(resolved)
}

fn check_sizes(raw: &raw::Raw) -> Result<(), (&'static str, String)> {
    let reason = raw.unavailable.clone().unwrap_or_default();
    let texts = [
        ("description", &raw.description),
        ("version", &raw.version),
        ("toolset", &raw.toolset),
        ("unavailable", &reason),
    ];
    for (field, text) in texts {
        if text.len() > MAX_TEXT_BYTES || text.chars().any(|it| it.is_control() && it != '\n') {
            return Err((field, format!("must be at most {MAX_TEXT_BYTES} bytes without control characters")));
        }
    }
    let examples: usize = raw
        .examples
        .iter()
        .map(|it| {
            it.name.len()
                + serde_json::to_string(&it.input).map_or(0, |input| input.len())
                + it.data.as_ref().map_or(0, |data| data.to_string().len())
        })
        .sum();
    if examples > MAX_EXAMPLES_BYTES {
        return Err(("examples", format!("must be at most {MAX_EXAMPLES_BYTES} bytes together")));
    }
    Ok(())
}

fn check_env(names: Vec<String>) -> Result<Vec<String>, (&'static str, String)> {
    for name in &names {
        let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !plain || RESERVED_ENV.contains(&name.as_str()) || name.starts_with("OPENSKILL_") {
            return Err(("env", format!("'{name}' can't be passed on to a skill")));
        }
    }
    Ok(names)
}

fn resolve_example(raw: raw::Example) -> Result<Example, (&'static str, String)> {
    let error = raw.error.as_deref().map(|name| {
        ErrorCode::from_skill(name).ok_or_else(|| ("examples", format!("'{name}' is no error code of a skill")))
    });
    let error = error.transpose()?.map(ErrorCode::meaning);
    Ok(Example { name: raw.name, input: Value::Object(raw.input), data: raw.data, error })
}

/// The line of a top-level key, so that an error points somewhere. YAML and JSON keys look alike enough.
fn line_of(text: &str, field: &str) -> usize {
    let names_it = |line: &str| {
        let line = line.trim_start().trim_start_matches(['"', '\'']);
        line.strip_prefix(field).is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    text.lines().position(names_it).map_or(1, |index| index + 1)
}

/// Skills by id.
pub type Manifests = BTreeMap<String, Manifest>;

#[cfg(test)]
mod tests;
