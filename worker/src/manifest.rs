//! A skill's manifest: YAML or JSON, read strictly.
//!
//! Reading has two stages: [`raw`] is the file as written; a [`Manifest`] is valid.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use openskill_proto::error::Meaning;
use openskill_proto::v1::{ArgumentRules, CircuitRules, ErrorCode, TaskRules};
use serde_json::Value;

mod affinity;
pub(crate) mod agent;
mod arguments;
mod bounds;
mod circuit;
mod conduct;
pub(crate) mod docker;
mod env;
mod error;
pub(crate) mod exec;
pub(crate) mod gateway;
mod how;
pub(crate) mod http;
mod id;
mod jail;
mod limits;
pub(crate) mod mcp;
mod parameters;
mod path;
mod presentation;
pub(crate) mod python;
mod raw;
mod root;
mod schema;
pub(crate) mod session;
pub(crate) mod shelf;
mod task;
mod toolset;

pub use affinity::Affinity;
pub use conduct::{Approval, Conduct};
use error::Fault;
pub use error::ManifestError;
pub use how::How;
pub use id::{ID_RULE, valid_id};
pub use jail::{Jail, Level, Network};
pub use limits::Limits;
pub use presentation::Presentation;
pub use shelf::Shelf;
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
    /// Its name and pictures for people.
    pub presentation: Presentation,
    /// `type:runtime`, such as `cli:python`. Empty if there is no implementation.
    pub runner: String,
    /// How it runs.
    pub how: How,
    /// The skill's own deadline, in milliseconds.
    pub timeout_ms: Option<u32>,
    /// The skill's allowed root, if it is narrower than the worker's: absolute, and without links when the manifest was read.
    pub allowed_root: Option<PathBuf>,
    /// JSON Schema 2020-12 of the arguments; none if the skill accepts any.
    pub input_schema: Option<Value>,
    /// The rules for arguments that do not fit.
    pub argument_rules: ArgumentRules,
    /// JSON Schema 2020-12 of the data.
    pub output_schema: Option<Value>,
    /// A second identical call does no harm, so a lost call may be retried.
    pub idempotent: bool,
    /// It may delete or overwrite things.
    pub destructive: bool,
    /// How an agent has to treat it.
    pub conduct: Conduct,
    /// Which calls go to one worker.
    pub affinity: Affinity,
    /// When its circuit breakers open, where that differs from the gateway's settings.
    pub circuit_rules: Option<CircuitRules>,
    /// Whether calls become tasks of MCP clients, where that differs from the gateway's settings.
    pub task: Option<TaskRules>,
    /// The prompts and resources that it declares for MCP clients.
    pub shelf: Shelf,
    /// How many calls of this skill one worker runs at once.
    pub concurrency: Option<usize>,
    /// What the skill's process may use.
    pub limits: Limits,
    /// What the skill's process may reach.
    pub jail: Jail,
    /// Names of the worker's environment variables that the skill may see.
    pub env: Vec<String>,
    /// Environment variables that the manifest sets.
    pub env_values: BTreeMap<String, String>,
    /// The group the skill belongs to.
    pub toolset: String,
    /// Why the skill is unavailable, if its manifest says so.
    pub unavailable: Option<String>,
    /// Example calls with their expected results; `openskill check` runs them.
    pub examples: Vec<Example>,
}

/// An example call with its expected result.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What it shows.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// The data it must return, if that is fixed.
    pub data: Option<Value>,
    /// The error it must end with.
    pub error: Option<&'static Meaning>,
}

/// The rules of the worker for all its manifests.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The allowed root of the worker, absolute and without links. A skill's own must be inside it.
    pub allowed_root: &'a Path,
    /// The toolset of the manifest's folder.
    pub toolset: Option<&'a Toolset>,
}

/// The largest manifest file that is read.
pub const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

impl Manifest {
    /// Reads the text of a manifest file.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(file: &Path, text: &str, rules: Rules<'_>) -> Result<Self, ManifestError> {
        let fail = |line, reason| ManifestError { file: file.to_owned(), line, reason };
        let raw = raw::read(text).map_err(|(line, reason)| fail(line, reason))?;
        Self::resolve(raw, file, rules).map_err(|fault| fail(line_of(text, &fault.field), fault.reason))
    }

    /// The manifest of a script without one: no schema, and its file name as id.
    ///
    /// # Errors
    /// The file name is not a valid skill id.
    pub fn for_bare_script(script: &Path) -> Result<Self, ManifestError> {
        let id = script.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !valid_id(id) {
            let reason = format!("'{id}' is not a valid skill id: use {ID_RULE}");
            return Err(ManifestError { file: script.to_owned(), line: 1, reason });
        }
        let how = How::Python(python::Python {
            script: script.to_owned(),
            isolation: python::Isolation::default(),
            needs: python::Needs::default(),
        });
        let description = format!("The script {id}.py. It has no manifest, so its arguments are passed on unchecked.");
        Ok(Self { description, ..Self::plain(id.to_owned(), "cli:python", how) })
    }

    /// A skill with nothing declared except how it runs.
    pub(crate) fn plain(id: String, runner: &str, how: How) -> Self {
        Self {
            id,
            version: raw::DEFAULT_VERSION.to_owned(),
            description: String::new(),
            presentation: Presentation::default(),
            runner: runner.to_owned(),
            how,
            timeout_ms: None,
            allowed_root: None,
            input_schema: None,
            argument_rules: ArgumentRules::default(),
            output_schema: None,
            idempotent: false,
            destructive: false,
            conduct: Conduct::default(),
            affinity: Affinity::None,
            circuit_rules: None,
            task: None,
            shelf: Shelf::default(),
            concurrency: None,
            limits: Limits::default(),
            jail: Jail::default(),
            env: Vec::new(),
            env_values: BTreeMap::new(),
            toolset: String::new(),
            unavailable: None,
            examples: Vec::new(),
        }
    }

    /// The name of the group that shares its sessions: its toolset, or the skill alone.
    pub(crate) fn group(&self) -> String {
        // A toolset and a skill may have the same name.
        if self.toolset.is_empty() { format!("skill {}", self.id) } else { format!("toolset {}", self.toolset) }
    }

    /// The approximate size of the skill in a worker's state, in bytes.
    pub(crate) fn description_size(&self) -> usize {
        let schema = |schema: &Option<Value>| schema.as_ref().map_or(0, |it| it.to_string().len());
        let examples: usize = self.examples.iter().map(|it| it.input.to_string().len()).sum();
        let aliases: usize = self.argument_rules.aliases.iter().map(|(alias, name)| alias.len() + name.len() + 8).sum();
        let texts = self.version.len() + self.toolset.len() + self.unavailable.as_ref().map_or(0, String::len);
        let agent = if let How::Agent(agent) = &self.how { agent.size() } else { 0 };
        256 + aliases
            + texts
            + agent
            + self.description.len()
            + self.presentation.size()
            + self.shelf.size()
            + schema(&self.input_schema)
            + schema(&self.output_schema)
            + examples
    }

    fn resolve(mut raw: raw::Raw, file: &Path, rules: Rules<'_>) -> Result<Self, Fault> {
        if !valid_id(&raw.id) {
            return Err(("id", format!("'{}' is not a valid skill id: use {ID_RULE}", raw.id)).into());
        }
        take_over(&mut raw, rules.toolset)?;
        let (runner, how) = how::resolve(&mut raw, file)?;
        let allowed_root = raw.allowed_root.as_deref().map(|it| root::resolve(it, rules.allowed_root)).transpose()?;
        bounds::check(&raw)?;
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
        if let How::Exec(exec) = &how {
            exec.check(input_schema.as_ref())?;
        }
        if let How::Agent(_) = &how {
            agent::check_schema(input_schema.as_ref())?;
        }
        let conduct = {
            let (approval, repeatable) = (raw.approval, raw.repeatable);
            let said = conduct::Raw { approval, repeatable, untrusted: raw.untrusted, read_only: raw.read_only };
            conduct::resolve(said, &runner, raw.destructive)?
        };
        let examples = raw.examples.into_iter().map(resolve_example).collect::<Result<_, _>>()?;
        let presentation = presentation::resolve(raw.title, raw.icons)?;
        Ok(Self {
            id: raw.id,
            version: raw.version,
            description: raw.description,
            presentation,
            runner,
            how,
            timeout_ms: raw.timeout_ms,
            allowed_root,
            input_schema,
            argument_rules,
            output_schema,
            idempotent: raw.idempotent,
            destructive: raw.destructive,
            conduct,
            affinity: raw.affinity.unwrap_or_default(),
            circuit_rules: raw.circuit.map(circuit::resolve).transpose()?,
            task: raw.task.map(task::resolve).transpose()?,
            shelf: shelf::resolve(raw.prompts, raw.resources, file)?,
            concurrency: raw.concurrency,
            limits: raw.limits,
            jail: jail::resolve(raw.jail, raw.network, raw.readable)?,
            env: raw.env.names,
            env_values: raw.env.values,
            toolset: raw.toolset,
            unavailable: raw.unavailable,
            examples,
        })
    }
}

/// Applies the toolset of the folder. A manifest in it cannot belong to another toolset.
fn take_over(raw: &mut raw::Raw, toolset: Option<&Toolset>) -> Result<(), (&'static str, String)> {
    let Some(toolset) = toolset else { return Ok(()) };
    if !raw.toolset.is_empty() && raw.toolset != toolset.toolset {
        return Err(("toolset", format!("its folder's toolset.yaml says '{}'", toolset.toolset)));
    }
    raw.toolset.clone_from(&toolset.toolset);
    raw.unavailable = raw.unavailable.take().or_else(|| toolset.unavailable.clone());
    Ok(())
}

fn resolve_example(raw: raw::Example) -> Result<Example, (&'static str, String)> {
    let error = raw.error.as_deref().map(|name| {
        ErrorCode::from_skill(name)
            .ok_or_else(|| ("examples", format!("'{name}' is not an error code that a skill may use")))
    });
    let error = error.transpose()?.map(ErrorCode::meaning);
    Ok(Example { name: raw.name, input: Value::Object(raw.input), data: raw.data, error })
}

/// The line of a top-level key, for errors. YAML and JSON keys look alike enough.
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
