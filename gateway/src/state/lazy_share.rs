//! A share of a pool that is taken when it is first needed: most bodies are small, and need none.

use std::sync::Arc;

use openskill_identity::shares::{Pool, Share};

/// What a body holds of a pool.
#[derive(Debug)]
pub(crate) struct LazyShare {
    pool: Pool,
    /// The principal. None: the anonymous one, or one that is not known yet.
    holder: Option<Arc<str>>,
    share: Option<Share>,
}

impl LazyShare {
    /// A share that holds nothing yet.
    pub(crate) fn new(pool: &Pool, holder: Option<Arc<str>>) -> Self {
        Self { pool: pool.clone(), holder, share: None }
    }

    /// Another share of the same holder.
    pub(crate) fn another(&self) -> Self {
        Self::new(&self.pool, self.holder.clone())
    }

    /// Makes it the share of a principal, before it holds anything.
    pub(crate) fn belong_to(&mut self, holder: &Arc<str>) {
        self.holder = Some(Arc::clone(holder));
    }

    /// Holds exactly `amount` units. False if they are not to be had or more than fair; the share does not change then.
    pub(crate) fn resize(&mut self, amount: usize) -> bool {
        match &mut self.share {
            Some(share) => share.resize(amount),
            None if amount == 0 => true,
            None => {
                self.share = self.pool.take(self.holder.clone().unwrap_or_default(), amount);
                self.share.is_some()
            }
        }
    }

    /// Takes `amount` units of it as a share of their own. None if it holds nothing.
    pub(crate) fn split(&mut self, amount: usize) -> Option<Share> {
        self.share.as_mut().map(|share| share.split(amount))
    }

    /// Gives back `less` units, or all if it holds fewer.
    pub(crate) fn shrink(&mut self, less: usize) {
        if let Some(share) = &mut self.share {
            share.shrink(less);
        }
    }
}
