//! A principal as currently defined in the file of keys.

use std::sync::Arc;

use openskill_identity::policy::Policy;

use super::usage::Usage;

/// What the gateway keeps for a principal: its policy and its usage. A `Principal` stands for it in a call.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) usage: Arc<Usage>,
}
