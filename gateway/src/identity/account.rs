//! A principal as the file of keys has it now.

use std::sync::Arc;

use openskill_identity::policy::Policy;

use super::usage::Usage;

/// A principal with its policy, and what it uses.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) usage: Arc<Usage>,
}
