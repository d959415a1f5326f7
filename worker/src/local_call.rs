//! `openskill run`: calls the skill of one file on this machine.

use std::path::Path;
use std::time::Duration;

use openskill_proto::v1::{ExecuteRequest, ExecuteResult};
use openskill_sandbox::plain_file;

use crate::check::{build_worker, explain, settle, slowest_build, slowest_start};
use crate::config::{Builds, Config};
use crate::execute::{TraceHeaders, execute};
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Rules};
use crate::registry::functions::{FunctionReader, MAX_SCRIPT_BYTES, may_have_functions};

/// The reasons why a skill was not called.
#[derive(Debug, thiserror::Error)]
pub enum LocalCallError {
    /// The system lacks what isolation requires.
    #[error("skills cannot be isolated on this machine: {0}")]
    System(#[source] std::io::Error),
    /// The skill can't run on this machine.
    #[error("'{skill_id}' cannot run on this machine: {reason}")]
    Unavailable {
        /// The skill's id.
        skill_id: String,
        /// Why the skill can't run, for people.
        reason: String,
    },
}

/// Reads the skill of a file: a manifest in YAML or JSON, a function of a Python file, or a Python script or another
/// program without a manifest. `function` selects one by its name or id. `file` is absolute.
///
/// # Errors
/// Fails if the manifest is invalid, if the file name of a program is not a valid skill id, or if it is unclear which
/// function is meant. Blocks while Python parses a file with functions.
pub fn read(file: &Path, function: Option<&str>, config: &Config) -> Result<Manifest, ManifestError> {
    let rules = Rules { allowed_root: &config.allowed_root, toolset: None };
    match (file.extension().and_then(|it| it.to_str()), function) {
        (Some("py"), _) => read_script(file, function, rules, config),
        (_, Some(_)) => Err(ManifestError::new(file, 1, "only a Python file has functions".to_owned())),
        (Some("yaml" | "yml" | "json"), None) => {
            let text = plain_file::read_in_folder(file, MAX_MANIFEST_BYTES)
                .map_err(|reason| ManifestError::new(file, 1, reason.to_string()))?;
            Manifest::parse(file, &text, rules)
        }
        (_, None) => Manifest::for_bare_program(file),
    }
}

/// Reads a Python file: the wanted function, the only one, or the one with the file's name. A file without functions that
/// are skills is a script.
fn read_script(file: &Path, name: Option<&str>, rules: Rules<'_>, config: &Config) -> Result<Manifest, ManifestError> {
    let fail = |line: usize, reason: String| Err(ManifestError::new(file, line, reason));
    let text = plain_file::read_in_folder(file, MAX_SCRIPT_BYTES).ok().filter(|it| may_have_functions(it));
    let functions = text.map(|it| FunctionReader::new(config.python.as_deref()).read(file, &it)).transpose()?;
    let Some(functions) = functions.filter(|it| !it.is_empty()) else {
        return match name {
            Some(_) => fail(1, "none of its functions is a skill".to_owned()),
            None => Manifest::for_bare_script(file),
        };
    };
    let (manifests, problems) = functions.resolve(file, rules);
    let wanted = name.or_else(|| file.file_stem()?.to_str()).unwrap_or_default();
    let is_only = name.is_none() && manifests.len() + problems.len() == 1;
    if let Some(it) = manifests.iter().find(|it| is_only || it.manifest.id == wanted || it.function() == wanted) {
        return Ok(it.manifest.clone());
    }
    let may_be_wanted = |function: &str| name.is_none() || manifests.is_empty() || [wanted, ""].contains(&function);
    if let Some(problem) = problems.into_iter().find(|it| may_be_wanted(&it.function)) {
        return fail(problem.line, problem.reason);
    }
    let ids: Vec<_> = manifests.iter().map(|it| it.manifest.id.as_str()).collect();
    fail(1, format!("name one of its skills with `openskill run FILE#NAME`: {}", ids.join(", ")))
}

/// Calls a skill on a worker without listeners, which serves only this skill. Builds the skill's environment first.
/// `input` is a JSON object that fits the skill's schema.
///
/// # Errors
/// Fails if the skill can't run here. A call that fails has a result.
pub async fn call(
    mut config: Config,
    manifest: Manifest,
    input: String,
    timeout: Duration,
) -> Result<ExecuteResult, LocalCallError> {
    let skill_id = manifest.id.clone();
    config.packages.builds = Builds::Only(skill_id.clone());
    let all = [manifest.clone()];
    let slowest = slowest_start(&all) + slowest_build(&all, &config);
    config.only = Some(manifest.clone());
    let worker = build_worker(config).map_err(LocalCallError::System)?;
    settle(&worker, slowest).await;
    let reason = match worker.registry.get(&skill_id, "") {
        Some(entry) => entry.runner.as_ref().err().map(|reason| explain(&worker, &manifest, reason)),
        None => Some("it is a server: call its tools through a gateway".to_owned()),
    };
    let called = match reason {
        Some(reason) => Err(reason),
        None => {
            let request = ExecuteRequest {
                skill_id: skill_id.clone(),
                call_id: "run".to_owned(),
                input_json: input.into(),
                trace_id: "openskill-run".to_owned(),
                timeout_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
                ..ExecuteRequest::default()
            };
            execute(&worker, request, TraceHeaders::default(), None).await.map_err(|it| it.message().to_owned())
        }
    };
    worker.close().await;
    called.map_err(|reason| LocalCallError::Unavailable { skill_id, reason })
}
