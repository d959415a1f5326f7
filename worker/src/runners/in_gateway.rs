//! Announces skills that run in the gateway: `agent`, a model that calls skills, and `gateway:...`, which the
//! gateway answers itself. Only the gateway has models, and knows which skills all workers have and whether they
//! can be called.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};

use crate::manifest::Manifest;
use crate::runner::{Invocation, RawOutput, Runner};

/// A runner that fails all calls with this text. Only older gateways send such calls to a worker.
pub(crate) struct InGateway(pub(crate) &'static str);

impl Runner for InGateway {
    /// Any worker can announce the skill. Each gateway decides whether it can run it.
    fn admit(&self, _: &Manifest) -> Result<(), String> {
        Ok(())
    }

    fn run(self: Arc<Self>, _: Invocation) -> BoxFuture<'static, RawOutput> {
        let error = SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, self.0) };
        std::future::ready(RawOutput::NotStarted(error)).boxed()
    }
}
