//! A share of a pool, taken on first use: most bodies are small and need none.

use std::sync::Arc;

use openskill_identity::shares::{Pool, Share};

/// A body's share of a pool.
#[derive(Debug)]
pub(crate) struct LazyShare {
    pool: Pool,
    /// The principal. None for the anonymous one, and for one that is not known yet.
    holder: Option<Arc<str>>,
    share: Option<Share>,
}

impl LazyShare {
    /// Creates an empty share.
    pub(crate) fn new(pool: &Pool, holder: Option<Arc<str>>) -> Self {
        Self { pool: pool.clone(), holder, share: None }
    }

    /// Creates another empty share of the same principal.
    pub(crate) fn another(&self) -> Self {
        Self::new(&self.pool, self.holder.clone())
    }

    /// Assigns the share to a principal. It must still be empty.
    pub(crate) fn belong_to(&mut self, holder: &Arc<str>) {
        self.holder = Some(Arc::clone(holder));
    }

    /// Changes the share to exactly `amount` units. Returns false, without a change, if that many are unavailable
    /// or exceed the fair share.
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

    /// Splits off `amount` units as a separate share. None if this share is empty.
    pub(crate) fn split(&mut self, amount: usize) -> Option<Share> {
        self.share.as_mut().map(|share| share.split(amount))
    }

    /// Gives back `less` units, or all if there are fewer.
    pub(crate) fn shrink(&mut self, less: usize) {
        if let Some(share) = &mut self.share {
            share.shrink(less);
        }
    }
}
