//! A manifest file as written. Parsing checks only types and unknown keys.

use openskill_sandbox::Limits;
use openskill_sandbox::jail::Level;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::affinity::Affinity;
use super::arguments;
use super::circuit::Circuit;
use super::env::Env;
use super::parameters::Parameters;
use super::tool_hints::Approval;

pub(super) const DEFAULT_VERSION: &str = "0.0.0";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawManifest {
    pub(super) id: String,
    #[serde(default = "default_version")]
    pub(super) version: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) icons: Vec<super::presentation::RawIcon>,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) runtime: String,
    #[serde(default)]
    pub(super) entry: String,
    pub(super) isolation: Option<super::python::Isolation>,
    pub(super) python: Option<super::python::RawPython>,
    pub(super) exec: Option<super::exec::RawExec>,
    pub(super) http: Option<super::http::RawHttp>,
    pub(super) docker: Option<super::docker::RawDocker>,
    pub(super) mcp: Option<super::mcp::RawMcp>,
    pub(super) agent: Option<super::agent::RawAgent>,
    #[serde(default)]
    pub(super) jail: Option<Level>,
    pub(super) network: Option<Value>,
    #[serde(default)]
    pub(super) readable: Vec<std::path::PathBuf>,
    pub(super) unavailable: Option<String>,
    pub(super) timeout_ms: Option<u32>,
    pub(super) allowed_root: Option<String>,
    pub(super) input_schema: Option<Value>,
    pub(super) parameters: Option<Parameters>,
    pub(super) arguments: Option<arguments::RawArguments>,
    pub(super) output_schema: Option<Value>,
    #[serde(default)]
    pub(super) idempotent: bool,
    #[serde(default)]
    pub(super) destructive: bool,
    pub(super) approval: Option<Approval>,
    #[serde(default)]
    pub(super) repeatable: bool,
    pub(super) untrusted: Option<bool>,
    #[serde(default)]
    pub(super) read_only: bool,
    pub(super) affinity: Option<Affinity>,
    pub(super) circuit: Option<Circuit>,
    pub(super) task: Option<super::task::RawTask>,
    #[serde(default)]
    pub(super) prompts: Vec<super::offerings::prompt::RawPrompt>,
    #[serde(default)]
    pub(super) resources: Vec<super::offerings::resource::RawResource>,
    pub(super) concurrency: Option<usize>,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) env: Env,
    #[serde(default)]
    pub(super) toolset: String,
    #[serde(default)]
    pub(super) examples: Vec<Example>,
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
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: Map<String, Value>,
    pub(super) data: Option<Value>,
    pub(super) error: Option<String>,
}

fn default_version() -> String {
    DEFAULT_VERSION.to_owned()
}

/// Parses YAML, which includes JSON. An error contains the line (from 1) and the reason.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, (usize, String)> {
    // In YAML 1.2, `on` and `no` are strings. YAML 1.1 would change values in schemas silently.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line() as usize);
        let shown = error.without_snippet().to_string();
        let reason = shown.lines().next().unwrap_or_default();
        // The caller reports the line separately.
        let reason = reason.rsplit_once(" at line ").map_or(reason, |(reason, _)| reason);
        (line.max(1), reason.to_owned())
    })
}
