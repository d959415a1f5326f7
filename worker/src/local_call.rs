//! `openskill run`: calls the skill of one file on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use openskill_proto::v1::{ExecuteRequest, ExecuteResult};
use openskill_sandbox::plain_file;

use crate::check::{build_worker, explain, settle, slowest_build, slowest_start};
use crate::config::{Builds, Config};
use crate::execute::{TraceHeaders, execute};
use crate::manifest::{MAX_MANIFEST_BYTES, Manifest, ManifestError, Rules};

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

/// Reads the skill of a file: a manifest in YAML or JSON, or a Python script or another program without a manifest.
/// `file` and `allowed_root` are absolute.
///
/// # Errors
/// Fails if the manifest is invalid, or if the file name of a program is not a valid skill id.
pub fn read(file: &Path, allowed_root: &Path) -> Result<Manifest, ManifestError> {
    match file.extension().and_then(|it| it.to_str()) {
        Some("yaml" | "yml" | "json") => {
            let text = plain_file::read_in_folder(file, MAX_MANIFEST_BYTES)
                .map_err(|reason| ManifestError::new(file, 1, reason.to_string()))?;
            Manifest::parse(file, &text, Rules { allowed_root, toolset: None })
        }
        Some("py") => Manifest::for_bare_script(file),
        _ => Manifest::for_bare_program(file),
    }
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
    let all = BTreeMap::from([(skill_id.clone(), manifest.clone())]);
    let slowest = slowest_start(&all) + slowest_build(&all, &config);
    config.only = Some(manifest.clone());
    let worker = build_worker(config).map_err(LocalCallError::System)?;
    settle(&worker, slowest).await;
    let reason = match worker.registry.get(&skill_id) {
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
