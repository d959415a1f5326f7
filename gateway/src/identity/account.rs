//! A principal as currently defined in the file of keys.

use std::sync::Arc;

use openskill_identity::policy::Policy;

use super::usage::Usage;

/// A principal with its policy and its usage.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) usage: Arc<Usage>,
}
