//! Skills that run in the gateway: `agent`, a model that calls skills, and `gateway:...`, which the gateway answers itself. A
//! worker announces them. Only the gateway has models, and knows the skills of all workers and which of them can be called.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};

use crate::manifest::Manifest;
use crate::runner::{Invocation, RawOutput, Runner};

/// The runner. Its text is the error of a call that an older gateway sends here.
pub(crate) struct InGateway(pub(crate) &'static str);

impl Runner for InGateway {
    /// Every worker can announce it. Whether it can run is for each gateway to say.
    fn admit(&self, _: &Manifest) -> Result<(), String> {
        Ok(())
    }

    fn run(self: Arc<Self>, _: Invocation) -> BoxFuture<'static, RawOutput> {
        let error = SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, self.0) };
        std::future::ready(RawOutput::NotStarted(error)).boxed()
    }
}
