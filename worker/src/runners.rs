//! The runners of a worker, by key.

use std::collections::HashMap;
use std::sync::Arc;

use openskill_metrics::Snapshot;
use openskill_proto::v1::{Offering, ResourceUpdate};

use crate::manifest::Manifest;
use crate::runner::Runner;

pub mod docker;
pub(crate) mod executable;
pub(crate) mod http;
pub(crate) mod in_gateway;
pub mod in_process;
pub(crate) mod mcp;
pub(crate) mod once;
pub(crate) mod python;
pub(crate) mod sandbox;

/// The runner of a skill, or the reason why it is unavailable, for people.
pub(crate) type Admitted = Result<Arc<dyn Runner>, String>;

/// Runners by key.
#[derive(Clone)]
pub(crate) struct Runners {
    by_key: Arc<HashMap<&'static str, Arc<dyn Runner>>>,
}

impl Runners {
    pub(crate) fn new(runners: impl IntoIterator<Item = (&'static str, Arc<dyn Runner>)>) -> Self {
        Self { by_key: Arc::new(runners.into_iter().collect()) }
    }

    /// The skills that a manifest declares, each with its runner or the reason why it is unavailable.
    pub(crate) fn offer(&self, manifest: Manifest) -> Vec<(Manifest, Admitted)> {
        if let Some(reason) = manifest.unavailable.clone() {
            return vec![(manifest, Err(reason))];
        }
        let Some(runner) = self.by_key.get(manifest.runner.as_str()) else {
            let mut known: Vec<_> = self.by_key.keys().copied().collect();
            known.sort_unstable();
            let reason = format!("this worker has no runner '{}'; use one of {}", manifest.runner, known.join(", "));
            return vec![(manifest, Err(reason))];
        };
        let offers = runner.offer(manifest).into_iter();
        offers.map(|it| (it.manifest, it.runner.map(|()| Arc::clone(runner)))).collect()
    }

    /// Gives each runner its own manifests.
    pub(crate) fn tend(&self, manifests: &[Arc<Manifest>]) {
        for (key, runner) in self.by_key.iter() {
            let own: Vec<_> =
                manifests.iter().filter(|it| it.runner == *key && it.unavailable.is_none()).cloned().collect();
            runner.tend(&own);
        }
    }

    /// What a manifest's server offers MCP clients beside tools.
    pub(crate) fn shelf(&self, manifest: &Manifest) -> (Vec<Offering>, Vec<ResourceUpdate>) {
        self.by_key.get(manifest.runner.as_str()).map(|runner| runner.shelf(&manifest.id)).unwrap_or_default()
    }

    /// The runner of a manifest.
    pub(crate) fn of(&self, manifest: &Manifest) -> Option<Arc<dyn Runner>> {
        self.by_key.get(manifest.runner.as_str()).cloned()
    }

    /// The last lines that the server of a manifest wrote to stderr.
    pub(crate) fn last_lines(&self, manifest: &Manifest) -> Vec<String> {
        self.by_key.get(manifest.runner.as_str()).map(|runner| runner.last_lines(&manifest.id)).unwrap_or_default()
    }

    /// Whether everything the runners start by themselves was tried at least once.
    pub(crate) fn settled(&self) -> bool {
        self.by_key.values().all(|runner| runner.settled())
    }

    /// Adds the metrics of what the runners keep.
    pub(crate) fn measure(&self, metrics: &mut Snapshot) {
        self.by_key.values().for_each(|runner| runner.measure(metrics));
    }

    /// Releases what the runners keep between runs.
    pub(crate) async fn close(&self) {
        futures_util::future::join_all(self.by_key.values().map(|runner| runner.close())).await;
    }
}
