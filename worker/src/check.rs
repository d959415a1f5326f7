//! A manifest's examples, run for real on this machine: what `openskill check` does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1::{ExecuteRequest, ExecuteResult};
use serde_json::Value;

use crate::config::Config;
use crate::events::EventSink;
use crate::execute::{Place, execute};
use crate::manifest::{Example, Manifest, ManifestError};
use crate::process::strays::Strays;
use crate::runners::Functions;

/// What a check found.
#[derive(Debug)]
pub struct Findings {
    /// The skill.
    pub manifest: Manifest,
    /// Each example, in the manifest's order: its name, and what is wrong with it, if anything.
    pub examples: Vec<(String, Result<(), String>)>,
}

/// Why nothing could be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The manifest, or another that takes its place, can't be used.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    BadManifest(Vec<ManifestError>),
    /// The system lacks what isolation needs.
    #[error("skills can't be isolated here: {0}")]
    System(#[source] std::io::Error),
    /// There is no such skill.
    #[error("no skill '{skill_id}' in {}", folders.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(", "))]
    NotFound {
        /// The id that was asked for.
        skill_id: String,
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
}

/// Reads the skill's manifest and runs its examples, one after the other.
///
/// # Errors
/// The manifest can't be used, or there is none.
pub async fn check(config: Config, skill_id: &str) -> Result<Findings, CheckError> {
    let (mut manifests, errors) = crate::registry::read_folders(&config.skill_dirs, &config.allowed_root);
    let Some(manifest) = manifests.remove(skill_id) else {
        let names_it = |error: &ManifestError| error.file.file_stem().is_some_and(|stem| stem == skill_id);
        let of_skill: Vec<_> = errors.into_iter().filter(names_it).collect();
        let (skill_id, folders) = (skill_id.to_owned(), config.skill_dirs);
        return Err(if of_skill.is_empty() {
            CheckError::NotFound { skill_id, folders }
        } else {
            CheckError::BadManifest(of_skill)
        });
    };
    let strays = Strays::adopt().map_err(CheckError::System)?;
    let worker = crate::build(config, Functions::default(), Arc::new(strays));
    let mut examples = Vec::with_capacity(manifest.examples.len());
    for (number, example) in manifest.examples.iter().enumerate() {
        let request = ExecuteRequest {
            skill_id: manifest.id.clone(),
            call_id: format!("example-{number}"),
            input_json: example.input.to_string().into(),
            trace_id: "openskill-check".to_owned(),
            timeout_ms: manifest.timeout_ms.unwrap_or(Duration::from_secs(15).as_millis() as u32),
            ..ExecuteRequest::default()
        };
        let outcome = match execute(&worker, request, Place::default(), EventSink::default()).await {
            Ok(result) => judge(&manifest, example, &result),
            Err(status) => Err(status.message().to_owned()),
        };
        examples.push((example.name.clone(), outcome));
    }
    worker.launcher.finished().await;
    Ok(Findings { manifest, examples })
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
    let validator = jsonschema::draft202012::new(schema).map_err(|error| error.to_string())?;
    validator
        .validate(value)
        .map_err(|error| format!("{what} does not fit its schema at '{}': {error}", error.instance_path()))
}
