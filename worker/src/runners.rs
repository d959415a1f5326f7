//! A worker's runners, by key.

use std::collections::HashMap;
use std::sync::Arc;

use openskill_telemetry::metrics::Snapshot;

use crate::manifest::Manifest;
use crate::runner::Runner;
use mcp::Mcp;
use python::environments::Environments;

pub mod docker;
pub(crate) mod executable;
pub(crate) mod http;
pub(crate) mod in_gateway;
pub mod in_process;
pub(crate) mod mcp;
pub(crate) mod once;
pub(crate) mod python;
pub(crate) mod sandbox;
pub(crate) mod services;

/// The runner of a skill, or the reason why the skill is unavailable, for people.
pub(crate) type Admitted = Result<Arc<dyn Runner>, String>;

/// A worker's runners, by key.
#[derive(Clone)]
pub(crate) struct Runners {
    by_key: Arc<HashMap<&'static str, Arc<dyn Runner>>>,
    /// Those of them that start servers on their own.
    mcp: [(&'static str, Arc<Mcp>); 2],
    /// The environments that all runners share.
    environments: Environments,
}

impl Runners {
    pub(crate) fn new(
        environments: Environments,
        mcp: [(&'static str, Arc<Mcp>); 2],
        others: impl IntoIterator<Item = (&'static str, Arc<dyn Runner>)>,
    ) -> Self {
        let servers = mcp.clone().map(|(key, runner)| (key, runner as Arc<dyn Runner>));
        Self { by_key: Arc::new(others.into_iter().chain(servers).collect()), mcp, environments }
    }

    /// Returns a manifest's skills, each with its runner or the reason why it is unavailable.
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

    /// Lets each runner maintain the state for its own manifests.
    pub(crate) fn maintain(&self, manifests: &[Arc<Manifest>]) {
        self.environments.maintain(manifests);
        for (key, runner) in self.by_key.iter() {
            let own: Vec<_> =
                manifests.iter().filter(|it| it.runner == *key && it.unavailable.is_none()).cloned().collect();
            runner.maintain(&own);
        }
    }

    /// Returns the servers of the manifest's runner, if it has servers.
    pub(crate) fn servers(&self, manifest: &Manifest) -> Option<&Mcp> {
        self.mcp.iter().find(|(key, _)| *key == manifest.runner).map(|(_, servers)| &**servers)
    }

    /// Returns whether the runners have attempted everything that they start on their own at least once.
    pub(crate) fn is_settled(&self) -> bool {
        self.environments.is_settled() && self.mcp.iter().all(|(_, servers)| servers.are_settled())
    }

    /// Adds the runners' metrics.
    pub(crate) fn measure(&self, metrics: &mut Snapshot) {
        self.environments.measure(metrics);
        self.by_key.values().for_each(|runner| runner.measure(metrics));
    }

    /// Releases everything that the runners keep between calls.
    pub(crate) async fn close(&self) {
        let runners = futures_util::future::join_all(self.by_key.values().map(|runner| runner.close()));
        futures_util::future::join(self.environments.close(), runners).await;
    }
}
