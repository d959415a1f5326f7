//! What all shards of a gateway share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::workers::Workers;

/// A gateway.
pub(crate) struct Gateway {
    pub(crate) config: Config,
    pub(crate) catalog: Catalog,
    pub(crate) workers: Workers,
    pub(crate) admission: Admission,
    pub(crate) metrics: Metrics,
    /// Cancelled when the gateway takes nothing new any more.
    pub(crate) draining: CancellationToken,
}

impl Gateway {
    pub(crate) fn new(config: Config, draining: CancellationToken) -> Arc<Self> {
        let admission = Admission::new(config.max_in_flight);
        Arc::new(Self {
            config,
            catalog: Catalog::default(),
            workers: Workers::default(),
            admission,
            metrics: Metrics::default(),
            draining,
        })
    }

    /// Whether calls can be served: some worker is up, and nothing is being shut down.
    pub(crate) fn is_ready(&self) -> bool {
        !self.draining.is_cancelled() && self.workers.up() > 0
    }
}
