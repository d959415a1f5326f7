//! A principal as the file of keys has it now.

use std::sync::{Arc, LazyLock};

use openskill_identity::policy::Policy;

use super::usage::Usage;

/// A principal with its policy, and what it uses.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) usage: Arc<Usage>,
}

static NOBODY: LazyLock<Arc<Account>> =
    LazyLock::new(|| Arc::new(Account { name: Arc::from(""), policy: Arc::default(), usage: Arc::default() }));

impl Account {
    /// The account of a caller without a valid key: it may do nothing.
    pub(crate) fn nobody() -> Arc<Self> {
        Arc::clone(&NOBODY)
    }
}
