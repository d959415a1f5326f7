//! Starts a server that is not installed yet, to list its tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use openskill_redact::Redactor;
use serde_json::{Map, Value};

use super::catalog::{Catalog, skill_ids};
use super::connection::{OpenConnection, open};
use super::pins::{Pin, pin};
use super::program::Host;
use crate::manifest::{Manifest, RunnerSpec};
use crate::runners::python::interpreter::Interpreter;
use crate::runners::services::Services;

/// Starts servers for trials. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trial(Host);

/// A tool as the server defines it, with its pin.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolDefinition {
    pub(crate) pin: Pin,
    pub(crate) parts: Map<String, Value>,
}

/// A server's tools, by the names that the server uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerTools {
    pub(crate) tools: BTreeMap<String, ToolDefinition>,
}

impl ToolDefinition {
    /// Computes the pin of a definition.
    pub(crate) fn new(parts: Map<String, Value>) -> Self {
        Self { pin: pin(&parts), parts }
    }
}

/// Returns the skill id that each of a server's tools will get.
pub(crate) fn ids<'a>(server: &str, tools: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, String> {
    let names: Vec<&str> = tools.into_iter().map(String::as_str).collect();
    skill_ids(server, &names)
}

impl Trial {
    pub(crate) fn new(services: &Services, redactor: Redactor) -> Self {
        Self(Host::new(services, redactor))
    }

    /// Checks whether this machine provides the jail that a manifest requires.
    ///
    /// # Errors
    /// Returns what is missing, for people.
    pub(crate) fn admits(&self, manifest: &Manifest) -> Result<(), String> {
        self.0.services.jailer.isolated_plan(manifest, &[], &[]).map(drop)
    }

    /// Starts a server in its jail, lists its tools, and ends it. Dropping the future also ends it.
    ///
    /// # Errors
    /// Returns the reason, for people, if the server does not start or does not answer.
    pub(crate) async fn list(&self, manifest: &Manifest, interpreter: Arc<Interpreter>) -> Result<ServerTools, String> {
        let RunnerSpec::Mcp(mcp) = &manifest.how else { return Err("it is not an MCP server".to_owned()) };
        let host = Host { interpreter: Some(interpreter), last_lines: Arc::default(), ..self.0.clone() };
        let OpenConnection { connection, service, process, requests: _requests, .. } =
            open(manifest, mcp, &host).await.map_err(|why| why.to_string())?;
        let catalog = Catalog::ask(&connection.peer).await;
        service.cancellation_token().cancel();
        // Dropping the process ends its process tree.
        drop(process);
        let tools = catalog.map_err(|why| why.to_string())?.tools;
        Ok(ServerTools { tools: tools.into_iter().map(|(name, parts)| (name, ToolDefinition::new(parts))).collect() })
    }
}
