//! Parses a skill's manifest, in YAML or JSON, strictly.
//!
//! A manifest is read in two stages: [`raw`] is the file as written, and a [`Manifest`] is valid.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use openskill_proto::error::Meaning;
use openskill_proto::v1::{ArgumentRules, CircuitRules, ErrorCode, FailingExample, RetryRules, TaskRules};
use openskill_sandbox::Limits;
use openskill_skill::versions::NO_VERSION;
use serde_json::Value;

mod agent;
mod checks;
pub(crate) mod docker;
pub(crate) mod exec;
pub(crate) mod http;
pub(crate) mod mcp;
pub(crate) mod offerings;
mod presentation;
mod process;
pub(crate) mod python;
mod raw;
mod rules;
mod runner_spec;
mod schema;
pub(crate) mod session;

pub use checks::{ID_RULE, ManifestError, valid_id};
use checks::{ManifestFault, refuse};
pub use offerings::McpOfferings;
pub use presentation::Presentation;
pub use process::Jail;
pub use raw::Toolset;
use raw::{RawExample, RawManifest};
pub use rules::{Affinity, Approval, ToolHints};
pub(crate) use runner_spec::ANSWERED;
pub use runner_spec::RunnerSpec;

/// A valid manifest, with defaults applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// `^[a-z][a-z0-9_-]{0,63}$`
    pub id: String,
    /// In a file, at most 128 of `0-9 A-Z a-z . + -`; an MCP server reports any text. The default is `0.0.0`.
    pub version: String,
    /// A description that helps a model to choose among tools.
    pub description: String,
    /// The skill's display name and icons.
    pub presentation: Presentation,
    /// `type:runtime`, such as `cli:python`. Empty if the skill has no implementation.
    pub runner: String,
    /// The selected runner with its settings.
    pub how: RunnerSpec,
    /// The skill's own deadline, in milliseconds.
    pub timeout_ms: Option<u32>,
    /// The skill's allowed root, if it is narrower than the worker's. Absolute, and free of links when the
    /// manifest was read.
    pub allowed_root: Option<PathBuf>,
    /// The JSON Schema 2020-12 of the arguments. `None` if the skill accepts any arguments.
    pub input_schema: Option<Value>,
    /// The rules for arguments that do not match the schema.
    pub argument_rules: ArgumentRules,
    /// The JSON Schema 2020-12 of the data.
    pub output_schema: Option<Value>,
    /// Whether repeating an identical call has no additional effect, so that a lost call may be retried.
    pub idempotent: bool,
    /// Whether the skill may delete or overwrite things.
    pub destructive: bool,
    /// Hints for agents that use the skill.
    pub tool_hints: ToolHints,
    /// Which calls must go to the same worker.
    pub affinity: Affinity,
    /// Overrides the gateway's settings for circuit breakers.
    pub circuit_rules: Option<CircuitRules>,
    /// Overrides the gateway's settings for calls that become tasks of MCP clients.
    pub task: Option<TaskRules>,
    /// How its operations are tried again.
    pub retry: Option<RetryRules>,
    /// The prompts and resources that the manifest declares for MCP clients.
    pub offerings: McpOfferings,
    /// The maximum number of concurrent calls of this skill per worker.
    pub concurrency: Option<usize>,
    /// The resource limits of the skill's process.
    pub limits: Limits,
    /// What the skill's process may access.
    pub jail: Jail,
    /// The worker's environment variables that the skill may see, by name.
    pub env: Vec<String>,
    /// The environment variables that the manifest sets.
    pub env_values: BTreeMap<String, String>,
    /// The toolset that the skill belongs to. May be empty.
    pub toolset: String,
    /// Why the manifest switches the skill off, if it does.
    pub unavailable: Option<String>,
    /// Example calls with their expected results. `openskill check` runs them.
    pub examples: Vec<Example>,
}

/// An example call with its expected result.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The example's name, which says what it demonstrates.
    pub name: String,
    /// The arguments of the call.
    pub input: Value,
    /// The data that the call must return. `None` accepts any data.
    pub data: Option<Value>,
    /// The error that the call must end with. `None` if it must succeed.
    pub error: Option<&'static Meaning>,
    /// The files and folders that the call needs, such as `data/docs`. Without them it is not run.
    pub needs: Vec<PathBuf>,
}

impl Example {
    /// Returns the example for callers. None if its call must succeed.
    pub(crate) fn to_failing(&self) -> Option<FailingExample> {
        let code = self.error?.code.into();
        Some(FailingExample { input_json: self.input.to_string(), code })
    }
}

/// A worker's rules for all its manifests.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The worker's allowed root: absolute and without links. A skill's allowed root must be inside it.
    pub allowed_root: &'a Path,
    /// The toolset of the manifest's folder.
    pub toolset: Option<&'a Toolset>,
}

/// The maximum size of a manifest file, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 1024 * 1024;

impl Manifest {
    /// Parses the text of a manifest file.
    ///
    /// # Errors
    /// Returns the first error, with its line.
    pub fn parse(file: &Path, text: &str, rules: Rules<'_>) -> Result<Self, ManifestError> {
        let raw = raw::read(text).map_err(|(line, reason)| ManifestError::new(file, line, reason))?;
        let at_its_line = |fault: ManifestFault| ManifestError::new(file, line_of(text, &fault.field), fault.reason);
        Self::resolve(raw, file, rules).map_err(at_its_line)
    }

    /// Creates the manifest of a script that has none. It has no schema, and its id is the file name.
    ///
    /// # Errors
    /// Fails if the file name is not a valid skill id.
    pub fn for_bare_script(script: &Path) -> Result<Self, ManifestError> {
        let id = file_id(script)?;
        let how = RunnerSpec::Python(python::Python {
            script: script.to_owned(),
            function: None,
            isolation: python::Isolation::default(),
            needs: python::Needs::default(),
        });
        let description = format!("The script {id}.py. It has no manifest, so its arguments are passed on unchecked.");
        Ok(Self { description, ..Self::plain(id, "cli:python", how) })
    }

    /// Creates the manifest of a program that has none and gets its arguments on stdin. It has no schema, and its id
    /// is the file name.
    ///
    /// # Errors
    /// Fails if the file name is not a valid skill id.
    pub fn for_bare_program(program: &Path) -> Result<Self, ManifestError> {
        let id = file_id(program)?;
        let program = program.to_owned();
        let exec = exec::Exec { program, args: Vec::new(), stdin: exec::Stdin::Input, printed: None };
        let how = RunnerSpec::Exec(Box::new(exec));
        Ok(Self::plain(id, "cli:exec", how))
    }

    /// Creates a skill that declares only its runner's settings.
    pub(crate) fn plain(id: String, runner: &str, how: RunnerSpec) -> Self {
        let (version, runner) = (NO_VERSION.to_owned(), runner.to_owned());
        Self { id, version, runner, how, ..Self::default() }
    }

    /// Returns the group whose skills share sessions: the toolset, or only this skill.
    pub(crate) fn group(&self) -> String {
        // The prefixes distinguish a toolset from a skill with the same name.
        if self.toolset.is_empty() { format!("skill {}", self.id) } else { format!("toolset {}", self.toolset) }
    }

    /// Returns the name of this version of the skill, by which runners tell the state of versions apart.
    pub(crate) fn versioned_id(&self) -> String {
        format!("{}@{}", self.id, self.version)
    }

    /// Whether a worker serves this manifest and another one with the same id side by side, as two versions of a skill.
    /// A manifest that names no version does not share its id.
    pub(crate) fn can_coexist_with(&self, other: &Self) -> bool {
        let may = |it: &Self| it.version != NO_VERSION && it.how.allows_versions();
        may(self) && may(other) && self.version != other.version
    }

    /// Returns the id of the manifest that declares the skill: that of the server for a server's tool.
    pub(crate) fn source(&self) -> &str {
        if let RunnerSpec::McpTool(tool) = &self.how { &tool.server } else { &self.id }
    }

    /// Returns the skill's approximate size in a worker's state, in bytes.
    pub(crate) fn description_size(&self) -> usize {
        let schema = |schema: &Option<Value>| schema.as_ref().map_or(0, |it| it.to_string().len());
        let examples: usize = self.examples.iter().map(|it| it.input.to_string().len()).sum();
        let aliases: usize = self.argument_rules.aliases.iter().map(|(alias, name)| alias.len() + name.len() + 8).sum();
        let texts = self.version.len() + self.toolset.len() + self.unavailable.as_ref().map_or(0, String::len);
        let agent = if let RunnerSpec::Agent(agent) = &self.how { agent::size(agent) } else { 0 };
        256 + aliases
            + texts
            + agent
            + self.description.len()
            + self.presentation.size()
            + self.offerings.size()
            + schema(&self.input_schema)
            + schema(&self.output_schema)
            + examples
    }

    fn resolve(mut raw: RawManifest, file: &Path, rules: Rules<'_>) -> Result<Self, ManifestFault> {
        if raw.id.is_empty() {
            return refuse("id", "the id is missing");
        }
        if !valid_id(&raw.id) {
            return refuse("id", format!("'{}' is not a valid skill id: use {ID_RULE}", raw.id));
        }
        take_over(&mut raw, rules.toolset)?;
        let (runner, how) = runner_spec::resolve(&mut raw, file)?;
        let root = raw.allowed_root.as_deref().map(|it| process::resolve_root(it, rules.allowed_root));
        let allowed_root = root.transpose()?;
        raw.check_bounds()?;
        let (input_schema, aliases) = match (raw.input_schema, &raw.parameters) {
            (Some(_), Some(_)) => return refuse("parameters", "give input_schema or parameters, not both"),
            (None, Some(parameters)) => {
                let (schema, aliases) = schema::from_parameters(parameters)?;
                (Some(schema), aliases)
            }
            (schema, None) => (schema, rules::Aliases::new()),
        };
        let input_schema = input_schema.map(|it| schema::check("input_schema", &it, true)).transpose()?;
        input_schema.as_ref().map_or(Ok(()), schema::check_defaults)?;
        let output_schema = raw.output_schema.map(|it| schema::check("output_schema", &it, false)).transpose()?;
        let arguments = raw.arguments.unwrap_or_default();
        let argument_rules = arguments.resolve(aliases, input_schema.as_ref(), raw.destructive)?;
        match &how {
            RunnerSpec::Exec(exec) => exec.check(input_schema.as_ref())?,
            RunnerSpec::Agent(_) => agent::check_schema(input_schema.as_ref())?,
            _ => {}
        }
        if raw.read_only && raw.destructive {
            return refuse("read_only", "a skill cannot be both read_only and destructive: remove one of them");
        }
        // Answers of HTTP and MCP servers count as untrusted text, unless the manifest says otherwise.
        let is_remote = runner == "http" || runner == "mcp" || runner.starts_with("mcp:");
        let tool_hints = ToolHints {
            approval: raw.approval,
            repeatable: raw.repeatable,
            untrusted: raw.untrusted.unwrap_or(is_remote),
            read_only: raw.read_only,
        };
        let examples = raw.examples.into_iter().map(resolve_example).collect::<Result<_, _>>()?;
        Ok(Self {
            presentation: presentation::resolve(raw.title, raw.icons)?,
            circuit_rules: raw.circuit.map(rules::RawCircuit::resolve).transpose()?,
            task: raw.task.map(rules::RawTask::resolve).transpose()?,
            retry: raw.retry.map(rules::RawRetry::resolve).transpose()?,
            offerings: offerings::resolve(raw.prompts, raw.resources, file)?,
            jail: Jail::resolve(raw.jail, raw.network.as_ref(), raw.readable)?,
            id: raw.id,
            version: raw.version,
            description: raw.description,
            runner,
            how,
            timeout_ms: raw.timeout_ms,
            allowed_root,
            input_schema,
            argument_rules,
            output_schema,
            idempotent: raw.idempotent,
            destructive: raw.destructive,
            tool_hints,
            affinity: raw.affinity.unwrap_or_default(),
            concurrency: raw.concurrency,
            limits: raw.limits,
            env: raw.env.names,
            env_values: raw.env.values,
            toolset: raw.toolset,
            unavailable: raw.unavailable,
            examples,
        })
    }
}

/// Returns the id of a skill without a manifest: the name of its file.
fn file_id(file: &Path) -> Result<String, ManifestError> {
    let id = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if valid_id(id) {
        return Ok(id.to_owned());
    }
    Err(ManifestError::new(file, 1, format!("'{id}' is not a valid skill id: use {ID_RULE}")))
}

/// Applies the folder's toolset. Rejects a manifest that names another toolset.
fn take_over(raw: &mut RawManifest, toolset: Option<&Toolset>) -> Result<(), ManifestFault> {
    let Some(toolset) = toolset else { return Ok(()) };
    if !raw.toolset.is_empty() && raw.toolset != toolset.toolset {
        return refuse("toolset", format!("the toolset.yaml of its folder sets '{}'", toolset.toolset));
    }
    raw.toolset.clone_from(&toolset.toolset);
    raw.unavailable = raw.unavailable.take().or_else(|| toolset.unavailable.clone());
    Ok(())
}

fn resolve_example(raw: RawExample) -> Result<Example, ManifestFault> {
    let code = |name: &str| {
        let reason = || format!("'{name}' is not an error code that a skill may use");
        ErrorCode::from_skill(name).ok_or_else(|| ManifestFault::new("examples", reason()))
    };
    let error = raw.error.as_deref().map(code).transpose()?.map(ErrorCode::meaning);
    Ok(Example { name: raw.name, input: Value::Object(raw.input), data: raw.data, error, needs: raw.needs })
}

/// Finds the line of a top-level key, for errors. One search works for both YAML and JSON keys.
fn line_of(text: &str, field: &str) -> usize {
    let names_it = |line: &str| {
        let line = line.trim_start().trim_start_matches(['"', '\'']);
        line.strip_prefix(field).is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    text.lines().position(names_it).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests;
