//! The files as written: a manifest and a `toolset.yaml`. Parsing checks only types and unknown keys.

use std::path::{Path, PathBuf};

use openskill_proto::limits::MAX_TIMEOUT_MS;
use openskill_sandbox::Limits;
use openskill_sandbox::jail::Level;
use openskill_skill::versions::NO_VERSION;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_saphyr::Error;

use super::agent::RawAgent;
use super::checks::{ManifestError, ManifestFault, refuse};
use super::docker::Docker;
use super::exec::RawExec;
use super::http::RawHttp;
use super::mcp::Mcp;
use super::offerings::{RawPrompt, RawResource};
use super::presentation::RawIcon;
use super::process::Env;
use super::python::{Isolation, RawPython};
use super::rules::{Affinity, Approval, RawArguments, RawCircuit, RawRetry, RawTask};
use super::schema::Parameters;

/// The maximum concurrency limit of a skill.
const MAX_CONCURRENCY: usize = 10_000;

/// The maximum size of a free text, and of all examples together, in bytes. YAML aliases can expand a small file.
const MAX_TEXT_BYTES: usize = 16 * 1024;
const MAX_EXAMPLES_BYTES: usize = 128 * 1024;

/// The minimum similarity of a key to the one that is suggested instead, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.8;

/// The maximum size of a version, in bytes.
const MAX_VERSION_BYTES: usize = 128;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawManifest {
    pub(super) id: String,
    #[serde(default = "default_version")]
    pub(super) version: String,
    pub(super) description: String,
    pub(super) title: String,
    pub(super) icons: Vec<RawIcon>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) runtime: String,
    pub(super) entry: String,
    pub(super) isolation: Option<Isolation>,
    pub(super) python: Option<RawPython>,
    pub(super) exec: Option<RawExec>,
    pub(super) http: Option<RawHttp>,
    pub(super) docker: Option<Docker>,
    pub(super) mcp: Option<Mcp>,
    pub(super) agent: Option<RawAgent>,
    pub(super) jail: Option<Level>,
    pub(super) network: Option<Value>,
    pub(super) readable: Vec<PathBuf>,
    pub(super) unavailable: Option<String>,
    pub(super) timeout_ms: Option<u32>,
    pub(super) allowed_root: Option<String>,
    pub(super) input_schema: Option<Value>,
    pub(super) parameters: Option<Parameters>,
    pub(super) arguments: Option<RawArguments>,
    pub(super) output_schema: Option<Value>,
    pub(super) idempotent: bool,
    pub(super) destructive: bool,
    pub(super) approval: Option<Approval>,
    pub(super) repeatable: bool,
    pub(super) untrusted: Option<bool>,
    pub(super) read_only: bool,
    pub(super) affinity: Option<Affinity>,
    pub(super) circuit: Option<RawCircuit>,
    pub(super) task: Option<RawTask>,
    pub(super) retry: Option<RawRetry>,
    pub(super) prompts: Vec<RawPrompt>,
    pub(super) resources: Vec<RawResource>,
    pub(super) concurrency: Option<usize>,
    pub(super) limits: Limits,
    pub(super) env: Env,
    pub(super) toolset: String,
    pub(super) examples: Vec<RawExample>,
}

impl RawManifest {
    /// Returns the keys in this file that apply only to skills on a worker. For skills in the gateway, they would
    /// be ignored silently.
    pub(super) fn worker_settings(&self) -> impl Iterator<Item = &'static str> {
        let settings = [
            ("entry", !self.entry.is_empty()),
            ("limits", self.limits != Limits::default()),
            ("env", self.env != Env::default()),
            ("jail", self.jail.is_some()),
            ("network", self.network.is_some()),
            ("readable", !self.readable.is_empty()),
            ("allowed_root", self.allowed_root.is_some()),
            ("concurrency", self.concurrency.is_some()),
            ("affinity", self.affinity.is_some()),
            ("examples", !self.examples.is_empty()),
        ];
        settings.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field)
    }
    /// Rejects numbers and texts that exceed the limits.
    pub(super) fn check_bounds(&self) -> Result<(), ManifestFault> {
        if self.timeout_ms.is_some_and(|ms| ms == 0 || ms > MAX_TIMEOUT_MS) {
            return refuse("timeout_ms", format!("must be 1 to {MAX_TIMEOUT_MS}"));
        }
        if self.concurrency.is_some_and(|limit| limit == 0 || limit > MAX_CONCURRENCY) {
            return refuse("concurrency", format!("must be 1 to {MAX_CONCURRENCY}"));
        }
        let is_allowed = |it: char| it.is_ascii_alphanumeric() || ".+-".contains(it);
        if !(1..=MAX_VERSION_BYTES).contains(&self.version.len()) || !self.version.chars().all(is_allowed) {
            return refuse("version", format!("must be 1 to {MAX_VERSION_BYTES} of 0-9 A-Z a-z . + -"));
        }
        let texts = [
            ("description", self.description.as_str()),
            ("toolset", &self.toolset),
            ("unavailable", self.unavailable.as_deref().unwrap_or_default()),
        ];
        let unfit = |text: &str| text.len() > MAX_TEXT_BYTES || text.chars().any(|it| it.is_control() && it != '\n');
        if let Some((field, _)) = texts.into_iter().find(|(_, text)| unfit(text)) {
            let reason = format!("must be at most {MAX_TEXT_BYTES} bytes and must not contain control characters");
            return refuse(field, reason);
        }
        if self.examples.iter().map(RawExample::size).sum::<usize>() > MAX_EXAMPLES_BYTES {
            return refuse("examples", format!("must be at most {MAX_EXAMPLES_BYTES} bytes in total"));
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExample {
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: Map<String, Value>,
    pub(super) data: Option<Value>,
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) needs: Vec<PathBuf>,
}

impl RawExample {
    fn size(&self) -> usize {
        let input = serde_json::to_string(&self.input).map_or(0, |input| input.len());
        self.name.len() + input + self.data.as_ref().map_or(0, |data| data.to_string().len())
    }
}

/// `toolset.yaml`: a group of skills with a folder, and the settings that they share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolset {
    /// The name that the skills share.
    pub toolset: String,
    /// The purpose of the toolset's skills.
    #[serde(default)]
    pub description: String,
    /// Why all its skills are switched off, if they are.
    pub unavailable: Option<String>,
}

impl Toolset {
    /// Parses the text of a `toolset.yaml`.
    ///
    /// # Errors
    /// Returns the error, with its line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ManifestError> {
        let toolset: Self = read(text).map_err(|(line, reason)| ManifestError::new(file, line, reason))?;
        let texts = [Some(&toolset.toolset), Some(&toolset.description), toolset.unavailable.as_ref()];
        let unfit = |it: &String| it.len() > MAX_TEXT_BYTES || it.chars().any(char::is_control);
        if toolset.toolset.is_empty() || texts.into_iter().flatten().any(unfit) {
            let rule =
                format!("each text must be at most {MAX_TEXT_BYTES} bytes and must not contain control characters");
            return Err(ManifestError::new(file, 1, format!("toolset must have a name; {rule}")));
        }
        Ok(toolset)
    }
}

fn default_version() -> String {
    NO_VERSION.to_owned()
}

/// Parses YAML, which includes JSON. An error contains the line (from 1) and the reason.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, (usize, String)> {
    // In YAML 1.2, `on` and `no` are strings. YAML 1.1 would change values in schemas silently.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line() as usize);
        let plain = error.without_snippet();
        let shown = plain.to_string();
        let reason = shown.lines().next().unwrap_or_default();
        // The caller reports the line separately.
        let reason = reason.rsplit_once(" at line ").map_or(reason, |(reason, _)| reason);
        let nearest = match plain {
            Error::SerdeUnknownField { field, expected, .. } => nearest(field, expected),
            Error::SerdeUnknownVariant { variant, expected, .. } => nearest(variant, expected),
            _ => None,
        };
        let near = nearest.map_or_else(String::new, |near| format!("did you mean {near}? "));
        (line.max(1), format!("{near}{reason}"))
    })
}

/// Returns the name that a misspelled one most resembles.
fn nearest<'a>(name: &str, expected: &[&'a str]) -> Option<&'a str> {
    let scored = expected.iter().map(|it| (strsim::jaro_winkler(name, it), *it));
    scored.filter(|(score, _)| *score >= MIN_SIMILARITY).max_by(|one, other| one.0.total_cmp(&other.0)).map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_key_or_value_names_the_one_that_is_meant() {
        let reason = |text: &str| read::<RawManifest>(text).unwrap_err().1;
        assert!(reason("id: a\nexmaples: []\n").starts_with("did you mean examples? unknown field `exmaples`"));
        assert!(reason("approval: nevr\n").starts_with("did you mean never? "), "{}", reason("approval: nevr\n"));
        assert!(reason("colour: red\n").starts_with("unknown field `colour`"));
    }
}
