//! `openskill check`: runs the examples in manifests on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_builtins::config::browser::NO_BROWSER;
use openskill_builtins::config::research::NO_PROVIDER;
use openskill_proto::v1::{ArgumentPolicy, ExecuteRequest, ExecuteResult, skill_error::More};
use openskill_sandbox::plain_file;
use openskill_sandbox::strays::Strays;
use openskill_skill::defaults::Defaults;
use serde_json::Value;

use crate::config::allowed::NONE_ALLOWED;
use crate::config::{Builds, Config};
use crate::execute::{TraceHeaders, execute};
use crate::manifest::python::Needs;
use crate::manifest::{Example, Manifest, ManifestError, Rules, RunnerSpec};
use crate::registry::SkillSources;
use crate::registry::functions::{FunctionReader, MAX_SCRIPT_BYTES, may_have_functions};
use crate::runners::in_process::Functions;
use crate::runners::mcp::pins::Pins;
use crate::worker::Worker;

/// The deadline of an example if the manifest sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long servers may take to list their tools after they started, and the polling interval.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(20);

/// The reasons why an operator's settings, or what is installed, switch a skill off.
pub(crate) const OFF_REASONS: [&str; 3] = [NONE_ALLOWED, NO_PROVIDER, NO_BROWSER];

/// The results of checking one skill.
#[derive(Debug)]
pub struct Findings {
    /// The manifest of the skill that was checked.
    pub manifest: Manifest,
    /// The reason why the skill can't run here, if it can't.
    pub runner: Result<(), String>,
    /// The examples in the manifest's order: each one's name, and its fault if it failed.
    pub examples: Vec<(String, Result<(), String>)>,
    /// The examples that were not run: each one's name, and what it needs that is not there.
    pub skipped: Vec<(String, PathBuf)>,
    /// The reasons why the skill's calls take longer than necessary.
    pub not_warm: Vec<String>,
}

impl Findings {
    /// Returns why the manifest or the operator switched the skill off, or `None` if it is on.
    pub fn switched_off(&self) -> Option<&str> {
        let by_operator = self.runner.as_ref().err().map(String::as_str).filter(|it| OFF_REASONS.contains(it));
        self.manifest.unavailable.as_deref().or(by_operator)
    }
}

/// What a check found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The skills whose manifests are valid, by id, the newest version first.
    pub skills: Vec<Findings>,
    /// What is wrong with the other files.
    pub invalid: Vec<ManifestError>,
}

/// The reasons why nothing could be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The system lacks what isolation requires.
    #[error("skills cannot be isolated on this machine: {0}")]
    System(#[source] std::io::Error),
    /// The skill does not exist.
    #[error("no skill '{skill_id}' in {}", folders.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(", "))]
    NotFound {
        /// The id that was requested.
        skill_id: String,
        /// The folders that were searched.
        folders: Vec<PathBuf>,
    },
}

/// The reasons why nothing was pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The server does not exist.
    #[error("no MCP server '{server}' in the skill folders")]
    NotFound {
        /// The id that was requested.
        server: String,
    },
    /// The server has no tools or does not run.
    #[error("the tools of '{server}' cannot be listed: {reason}")]
    NoTools {
        /// The server's id.
        server: String,
        /// Why the server has no tools, for people.
        reason: String,
    },
    /// The system lacks what isolation requires.
    #[error("servers cannot be isolated on this machine: {0}")]
    System(#[source] std::io::Error),
    /// The lock file can't be written.
    #[error("{} cannot be written: {source}", file.display())]
    Write {
        /// The lock file's path.
        file: PathBuf,
        /// The error that the system returned.
        source: std::io::Error,
    },
}

/// Reads all manifests, and runs the examples of one skill or of all skills, one after another. Builds the
/// environments of the checked Python skills.
///
/// # Errors
/// Fails if the skill does not exist.
pub async fn check(mut config: Config, skill_id: Option<&str>) -> Result<CheckReport, CheckError> {
    config.packages.builds = skill_id.map_or(Builds::All, |id| Builds::Only(id.to_owned()));
    let (manifests, errors) = crate::registry::read_folders(&SkillSources::for_command(&config));
    let slowest = slowest_start(&manifests) + slowest_build(&manifests, &config);
    let chosen: Vec<_> = manifests.into_iter().filter(|it| skill_id.is_none_or(|id| it.id == id)).collect();
    let names_it = |error: &ManifestError| {
        // The functions of a Python file are skills with other names.
        let may_have_it = chosen.is_empty() && error.file.extension().is_some_and(|it| it == "py");
        may_have_it || skill_id.is_none_or(|id| error.file.file_stem().is_some_and(|stem| stem == id))
    };
    let invalid: Vec<_> = errors.into_iter().filter(names_it).collect();
    if let Some(id) = skill_id.filter(|_| chosen.is_empty() && invalid.is_empty()) {
        return Err(CheckError::NotFound { skill_id: id.to_owned(), folders: config.skill_dirs });
    }
    if chosen.is_empty() {
        return Ok(CheckReport { skills: Vec::new(), invalid });
    }
    // The author of a skill may see its stderr.
    config.debug = true;
    let worker = build_worker(config).map_err(CheckError::System)?;
    settle(&worker, slowest).await;
    // Skills run here, so that paths mean the same to their examples.
    let start = worker.config.allowed_root.parent().unwrap_or(Path::new("/")).to_owned();
    let mut skills = Vec::with_capacity(chosen.len());
    for manifest in chosen {
        let tools = worker.registry.server_tools(&manifest.id);
        if !tools.is_empty() {
            // Servers' tools have no examples.
            skills.extend(tools.iter().map(|entry| Findings {
                manifest: entry.manifest.as_ref().clone(),
                runner: entry.runner.as_ref().map(|_| ()).map_err(Clone::clone),
                examples: Vec::new(),
                skipped: Vec::new(),
                not_warm: Vec::new(),
            }));
            continue;
        }
        let runner = worker.registry.get(&manifest.id, &manifest.version).map_or(Ok(()), |entry| {
            entry.runner.as_ref().map(|_| ()).map_err(|reason| explain(&worker, &manifest, reason))
        });
        let (mut examples, mut skipped) = (Vec::with_capacity(manifest.examples.len()), Vec::new());
        for example in manifest.examples.iter().filter(|_| runner.is_ok()) {
            if let Some(missing) = example.needs.iter().find(|it| !start.join(it).exists()) {
                skipped.push((example.name.clone(), missing.clone()));
                continue;
            }
            examples.push((example.name.clone(), run(&worker, &manifest, example).await));
        }
        let entry = worker.registry.get(&manifest.id, &manifest.version);
        let not_warm = entry.and_then(|it| it.runner.as_ref().ok().map(|runner| runner.not_warm(&manifest)));
        skills.push(Findings { manifest, runner, examples, skipped, not_warm: not_warm.unwrap_or_default() });
    }
    worker.close().await;
    Ok(CheckReport { skills, invalid })
}

/// Returns the variables that the manifests in the skill folders name, and whose values come from outside. Invalid
/// manifests name none.
#[must_use]
pub fn named_variables(config: &Config) -> BTreeSet<String> {
    let (manifests, _) = crate::registry::read_folders(&SkillSources::for_command(config));
    manifests.into_iter().flat_map(|it| it.env).collect()
}

/// Returns what is wrong with the files in the skill folders.
#[must_use]
pub fn invalid_files(config: &Config) -> Vec<ManifestError> {
    crate::registry::read_folders(&SkillSources::for_command(config)).1
}

/// Returns the manifests that the functions of a Python file mean.
///
/// # Errors
/// Returns what is wrong with the functions, or that the file has none.
pub fn read_functions(config: &Config, file: &Path) -> Result<Vec<Value>, Vec<ManifestError>> {
    let fail = |reason: String| vec![ManifestError { file: file.to_owned(), line: 1, reason }];
    let text = plain_file::read_in_folder(file, MAX_SCRIPT_BYTES).map_err(|error| fail(error.to_string()))?;
    if !may_have_functions(&text) {
        return Err(fail("it has no function with the decorator @skill of openskill_sdk".to_owned()));
    }
    let reader = FunctionReader::new(config.python.as_deref());
    let functions = reader.read(file, &text).map_err(|error| vec![error])?;
    let (_, problems) = functions.resolve(file, Rules { allowed_root: &config.allowed_root, toolset: None });
    if problems.is_empty() {
        return Ok(functions.documents(file));
    }
    let errors =
        problems.into_iter().map(|it| ManifestError { file: file.to_owned(), line: it.line, reason: it.reason });
    Err(errors.collect())
}

/// Builds a worker without listeners, for a command.
pub(crate) fn build_worker(config: Config) -> std::io::Result<Arc<Worker>> {
    crate::build(config, Functions::default(), Arc::new(Strays::adopt()?))
}

/// Explains why a skill can't run here. For an MCP server, adds its id and the last lines of its stderr.
pub(crate) fn explain(worker: &Worker, manifest: &Manifest, reason: &str) -> String {
    if !matches!(manifest.how, RunnerSpec::Mcp(_)) {
        return reason.to_owned();
    }
    let mut text = format!("the MCP server '{}' is unavailable: {reason}", manifest.id);
    let server = worker.registry.runners.servers(manifest);
    for line in server.map(|it| it.last_lines(&manifest.id)).unwrap_or_default() {
        text.push_str("\nstderr: ");
        text.push_str(&line);
    }
    text
}

/// Returns the longest start timeout among all servers.
pub(crate) fn slowest_start(manifests: &[Manifest]) -> Duration {
    let start = |manifest: &Manifest| match &manifest.how {
        RunnerSpec::Mcp(mcp) => mcp.start,
        _ => Duration::ZERO,
    };
    manifests.iter().map(start).max().unwrap_or_default()
}

/// Returns the maximum time to build the environments of all Python skills, one after another.
pub(crate) fn slowest_build(manifests: &[Manifest], config: &Config) -> Duration {
    let built = |manifest: &Manifest| manifest.how.needs().is_some_and(Needs::is_built);
    config.packages.build_timeout * manifests.iter().filter(|it| built(it)).count() as u32
}

/// Waits until the runners have attempted everything that they start on their own, but no longer than `slowest`
/// plus some time for the answers.
pub(crate) async fn settle(worker: &Worker, slowest: Duration) {
    let begun = Instant::now();
    loop {
        while !worker.registry.runners.is_settled() && begun.elapsed() < slowest + PATIENCE {
            tokio::time::sleep(STEP).await;
        }
        // A server starts when its environment is available.
        worker.registry.reload();
        if worker.registry.runners.is_settled() || begun.elapsed() >= slowest + PATIENCE {
            return worker.registry.reload();
        }
    }
}

/// Pins an MCP server's current tools in the lock file next to its manifest. Returns the file's path and the
/// number of tools.
///
/// # Errors
/// Fails if the server does not exist or does not run here, or if the file can't be written.
pub async fn pin(mut config: Config, server: &str) -> Result<(PathBuf, usize), PinError> {
    config.packages.builds = Builds::Only(server.to_owned());
    let (mut manifests, _) = crate::registry::read_folders(&SkillSources::for_command(&config));
    let starts = slowest_start(&manifests);
    manifests.retain(|it| it.id == server);
    let slowest = starts + slowest_build(&manifests, &config);
    let Some(RunnerSpec::Mcp(mcp)) = manifests.first().map(|it| &it.how) else {
        return Err(PinError::NotFound { server: server.to_owned() });
    };
    let worker = build_worker(config).map_err(PinError::System)?;
    settle(&worker, slowest).await;
    let pin = |entry: &Arc<crate::registry::Entry>| match &entry.manifest.how {
        RunnerSpec::McpTool(tool) => Some((tool.tool.clone(), tool.pin.clone())),
        _ => None,
    };
    let tools: BTreeMap<_, _> = worker.registry.server_tools(server).iter().filter_map(pin).collect();
    let reason = worker.registry.get(server, "").and_then(|entry| entry.runner.as_ref().err().cloned());
    worker.close().await;
    if tools.is_empty() {
        return Err(PinError::NoTools { server: server.to_owned(), reason: reason.unwrap_or_default() });
    }
    let count = tools.len();
    let text = serde_json::to_string_pretty(&Pins { server: server.to_owned(), tools }).map_err(std::io::Error::from);
    // Workers may read the file meanwhile.
    let written = text.and_then(|text| plain_file::replace(&mcp.lock, (text + "\n").as_bytes()));
    written.map_err(|source| PinError::Write { file: mcp.lock.clone(), source })?;
    Ok((mcp.lock.clone(), count))
}

async fn run(worker: &Worker, manifest: &Manifest, example: &Example) -> Result<(), String> {
    let request = ExecuteRequest {
        skill_id: manifest.id.clone(),
        version: manifest.version.clone(),
        call_id: "check".to_owned(),
        input_json: with_defaults(manifest, &example.input).into(),
        trace_id: "openskill-check".to_owned(),
        timeout_ms: manifest.timeout_ms.unwrap_or(DEFAULT_TIMEOUT.as_millis() as u32),
        ..ExecuteRequest::default()
    };
    match execute(worker, request, TraceHeaders::default(), None).await {
        Ok(result) => judge(manifest, example, &result).map_err(|reason| reason + &stderr(&result)),
        Err(status) => Err(status.message().to_owned()),
    }
}

/// Returns the arguments as a gateway completes them.
fn with_defaults(manifest: &Manifest, input: &Value) -> String {
    let (text, rules) = (input.to_string(), &manifest.argument_rules);
    let fills = rules.fill_defaults && rules.policy() == ArgumentPolicy::Repair;
    let Some(schema) = manifest.input_schema.as_ref().filter(|_| fills) else { return text };
    let Ok(validator) = openskill_skill::schema::compile(schema) else { return text };
    let accepts = |text: &str| serde_json::from_str(text).is_ok_and(|it| validator.is_valid(&it));
    let defaults = Defaults::from_schema(schema, &validator).0.filter(|_| validator.is_valid(input));
    let filled = defaults.and_then(|it| it.fill(&text, accepts).ok().flatten());
    filled.map_or(text, |it| it.text)
}

/// Extracts a failed script's stderr.
fn stderr(result: &ExecuteResult) -> String {
    let details = match result.error.as_ref().and_then(|error| error.more.as_ref()) {
        Some(More::DetailsJson(text)) => serde_json::from_str::<Value>(text).unwrap_or_default(),
        _ => return String::new(),
    };
    details["stderr"].as_str().map_or_else(String::new, |text| format!("\n{}", text.trim_end()))
}

fn judge(manifest: &Manifest, example: &Example, result: &ExecuteResult) -> Result<(), String> {
    if example.error.is_none() {
        fits("the input", manifest.input_schema.as_ref(), &example.input)?;
    }
    let code = result.error.as_ref().map(|error| error.code());
    match (&result.error, example.error) {
        (Some(_), Some(expected)) if code == Some(expected.code) => return Ok(()),
        (Some(error), Some(expected)) => {
            let (got, want) = (error.code().as_str_name(), expected.code.as_str_name());
            return Err(format!("expected {want}, got {got}: {}", error.message));
        }
        (Some(error), None) => return Err(format!("{}: {}", error.code().as_str_name(), error.message)),
        (None, Some(expected)) => return Err(format!("expected {}, but it succeeded", expected.code.as_str_name())),
        (None, None) => {}
    }
    let data: Value = serde_json::from_slice(&result.data_json).map_err(|error| error.to_string())?;
    fits("the data", manifest.output_schema.as_ref(), &data)?;
    match &example.data {
        Some(expected) if *expected != data => Err(format!("expected {expected}, got {data}")),
        _ => Ok(()),
    }
}

fn fits(what: &str, schema: Option<&Value>, value: &Value) -> Result<(), String> {
    let Some(schema) = schema else { return Ok(()) };
    let validator = openskill_skill::schema::compile(schema)?;
    validator
        .validate(value)
        .map_err(|error| format!("{what} does not fit its schema at '{}': {error}", error.instance_path()))
}
