//! The runners there are, by key, and why a key has none.

use std::collections::HashMap;
use std::sync::Arc;

use crate::manifest::Manifest;
use crate::runner::Runner;

mod in_process;
mod python;

pub(crate) use in_process::InProcess;
pub use in_process::{Function, Functions};
pub(crate) use python::Python;
pub use python::{Interpreter, PythonError, find as find_python};

/// Runners by key.
#[derive(Clone)]
pub(crate) struct Runners {
    by_key: Arc<HashMap<&'static str, Arc<dyn Runner>>>,
}

impl Runners {
    pub(crate) fn new(runners: impl IntoIterator<Item = (&'static str, Arc<dyn Runner>)>) -> Self {
        Self { by_key: Arc::new(runners.into_iter().collect()) }
    }

    /// The runner for a skill, if it takes the skill.
    ///
    /// # Errors
    /// Why the skill can't run here, for people.
    pub(crate) fn admit(&self, manifest: &Manifest) -> Result<Arc<dyn Runner>, String> {
        let Some(runner) = self.by_key.get(manifest.runner.as_str()) else {
            let mut known: Vec<_> = self.by_key.keys().copied().collect();
            known.sort_unstable();
            return Err(format!("no runner '{}' in this worker; it has {}", manifest.runner, known.join(", ")));
        };
        runner.admit(manifest).map(|()| Arc::clone(runner))
    }
}
