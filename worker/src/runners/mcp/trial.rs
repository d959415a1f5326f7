//! Starts a server that nobody serves yet, to see which tools it has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use openskill_redact::Redactor;
use serde_json::{Map, Value};

use super::catalog::Catalog;
use super::connection::{Opened, open};
use super::host::Host;
use super::names::skill_ids;
use super::pins::{Pin, pin};
use crate::environment::Surroundings;
use crate::manifest::{How, Manifest};
use crate::process::jail::jailer::Jailer;
use crate::process::launch::Launcher;
use crate::runners::python::interpreter::Interpreter;

/// What servers are tried with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Trial(Host);

/// A tool as its server defines it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) pin: Pin,
    pub(crate) parts: Map<String, Value>,
}

/// The tools of a server, by its names of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Listed {
    pub(crate) tools: BTreeMap<String, Definition>,
}

impl Definition {
    /// With its pin.
    pub(crate) fn of(parts: Map<String, Value>) -> Self {
        Self { pin: pin(&parts), parts }
    }
}

/// The skill ids that the tools of a server will have, by their names.
pub(crate) fn ids<'a>(server: &str, tools: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, String> {
    let names: Vec<&str> = tools.into_iter().map(String::as_str).collect();
    let ids: HashMap<String, String> = skill_ids(server, &names);
    ids.into_iter().collect()
}

impl Trial {
    pub(crate) fn new((launcher, surroundings, jailer): (Launcher, Surroundings, Jailer), redactor: Redactor) -> Self {
        Self(Host { launcher, surroundings, jailer, interpreter: None, redactor, last_lines: Arc::default() })
    }

    /// Whether there is the jail that a manifest demands.
    ///
    /// # Errors
    /// What is lacking, for people.
    pub(crate) fn admits(&self, manifest: &Manifest) -> Result<(), String> {
        self.0.jailer.isolated_plan(manifest, &[], &[]).map(drop)
    }

    /// Starts a server in its jail, lists its tools, and ends it. Dropping the future ends it as well.
    ///
    /// # Errors
    /// It does not start or does not answer: why not, for people.
    pub(crate) async fn list(&self, manifest: &Manifest, interpreter: Arc<Interpreter>) -> Result<Listed, String> {
        let How::Mcp(mcp) = &manifest.how else { return Err("it is no MCP server".to_owned()) };
        let host = Host { interpreter: Some(interpreter), last_lines: Arc::default(), ..self.0.clone() };
        let Opened { connection, service, process, requests: _requests, .. } =
            open(manifest, mcp, &host).await.map_err(|why| why.to_string())?;
        let catalog = Catalog::ask(&connection.peer).await;
        service.cancellation_token().cancel();
        // Its drop ends the process tree.
        drop(process);
        let tools = catalog.map_err(|why| why.to_string())?.tools;
        Ok(Listed { tools: tools.into_iter().map(|(name, parts)| (name, Definition::of(parts))).collect() })
    }
}
