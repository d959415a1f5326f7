//! Fair shares of a limited resource, such as memory or slots. A holder may have up to four times as many units as
//! are free. So a single greedy holder leaves a fifth to the others, and several greedy holders share the rest
//! evenly (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches"). Half of an
//! even share is always fair, whatever the others have.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The maximum number of units of a holder for each free unit.
const PER_FREE_UNIT: usize = 4;

/// Whether it is fair that a holder has `mine` units, including those that it requests, while all `holders`
/// together have `used` of `limit` units.
pub fn is_fair(mine: usize, used: usize, limit: usize, holders: usize) -> bool {
    2 * mine * holders <= limit || mine <= PER_FREE_UNIT * limit.saturating_sub(used)
}

/// Returns how many of `limit` units one of `holders` can get while it has `mine` of the `used` units and the
/// others keep theirs. The holder's parts, such as its sessions, share that amount.
pub fn reachable(mine: usize, used: usize, limit: usize, holders: usize) -> usize {
    let left_by_others = limit.saturating_sub(used.saturating_sub(mine));
    // `is_fair` grants units until a fifth of this is left.
    let share = (left_by_others + 1) - (left_by_others + 1).div_ceil(PER_FREE_UNIT + 1);
    share.max(limit / (2 * holders.max(1)))
}

/// A pool of `limit` units that holders, usually principals, share fairly. Clones share the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    limit: usize,
    held: Arc<Mutex<PoolUsage>>,
}

#[derive(Debug, Default)]
struct PoolUsage {
    total: usize,
    /// The units of each holder. Holders without units have no entry.
    by_holder: HashMap<Arc<str>, usize>,
}

/// A holder's units of a [`Pool`]. Dropping it returns all of them.
#[derive(Debug)]
pub struct Share {
    pool: Pool,
    holder: Arc<str>,
    amount: usize,
}

impl Pool {
    /// Creates a pool of `limit` units.
    pub fn new(limit: usize) -> Self {
        Self { limit, held: Arc::default() }
    }

    /// Creates a share without units.
    pub fn share(&self, holder: impl Into<Arc<str>>) -> Share {
        Share { pool: self.clone(), holder: holder.into(), amount: 0 }
    }

    /// Takes a share of `amount` units. Returns `None` if the pool has too few left, or the amount would be
    /// unfair.
    pub fn take(&self, holder: impl Into<Arc<str>>, amount: usize) -> Option<Share> {
        let mut share = self.share(holder);
        share.grow(amount).then_some(share)
    }

    /// Returns the number of units in the pool.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of units in use.
    pub fn in_use(&self) -> usize {
        self.held.lock().total
    }
}

impl Share {
    /// Returns the number of units in the share.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Adds `more` units. Returns false and changes nothing if the pool has too few left, or the amount would be
    /// unfair.
    pub fn grow(&mut self, more: usize) -> bool {
        let limit = self.pool.limit;
        let mut held = self.pool.held.lock();
        let mine = held.by_holder.get(&self.holder).copied().unwrap_or(0).saturating_add(more);
        let holders = held.by_holder.len() + usize::from(!held.by_holder.contains_key(&self.holder));
        let fits = held.total.checked_add(more).is_some_and(|total| total <= limit);
        if !fits || !is_fair(mine, held.total, limit, holders) {
            return false;
        }
        held.total += more;
        if mine > 0 {
            held.by_holder.insert(Arc::clone(&self.holder), mine);
        }
        self.amount += more;
        true
    }

    /// Adds `more` units even if the pool has too few, for resources that already exist.
    pub fn count(&mut self, more: usize) {
        let mut held = self.pool.held.lock();
        held.total = held.total.saturating_add(more);
        *held.by_holder.entry(Arc::clone(&self.holder)).or_default() += more;
        self.amount += more;
    }

    /// Splits off `amount` units as a separate share, or all units if there are fewer.
    pub fn split(&mut self, amount: usize) -> Self {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Self { pool: self.pool.clone(), holder: Arc::clone(&self.holder), amount }
    }

    /// Returns `less` units to the pool, or all units if there are fewer.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.amount);
        self.amount -= less;
        let mut held = self.pool.held.lock();
        held.total -= less;
        if let Some(mine) = held.by_holder.get_mut(&self.holder) {
            *mine -= less;
            if *mine == 0 {
                held.by_holder.remove(&self.holder);
            }
        }
    }

    /// Resizes the share to `amount` units. Returns false and changes nothing if the pool has too few left, or the
    /// amount would be unfair.
    pub fn resize(&mut self, amount: usize) -> bool {
        if amount > self.amount {
            return self.grow(amount - self.amount);
        }
        self.shrink(self.amount - amount);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Lets `holders` take turns, one unit at a time, until none can take more. Returns their shares.
    fn take_turns(pool: &Pool, holders: &[&str]) -> Vec<Share> {
        let mut shares: Vec<Share> = holders.iter().map(|holder| pool.share(*holder)).collect();
        while shares.iter_mut().filter_map(|share| share.grow(1).then_some(())).count() > 0 {}
        shares
    }

    #[test]
    fn one_holder_leaves_a_fifth_and_several_share_evenly() {
        let amounts = |holders| take_turns(&Pool::new(100), holders).iter().map(Share::amount).collect::<Vec<_>>();
        assert!((79..=81).contains(&amounts(&["one"])[0]));
        assert!(amounts(&["a", "b", "c", "d"]).iter().all(|amount| (22..=25).contains(amount)));
    }

    #[test]
    fn a_holder_reaches_what_it_would_get_if_it_took_turns() {
        let pool = Pool::new(100);
        let _other = pool.take("other", 20).unwrap();
        let mine = take_turns(&pool, &["one"])[0].amount();
        assert_eq!(mine, reachable(0, 20, 100, 2));
        assert_eq!((reachable(0, 100, 100, 4), reachable(10, 200, 100, 5)), (12, 10), "half of an even share is safe");
    }

    #[test]
    fn a_holder_gets_its_share_of_what_another_left() {
        let pool = Pool::new(1000);
        let _first = take_turns(&pool, &["greedy"]);
        let second = take_turns(&pool, &["modest"])[0].amount();
        assert!((160..=200).contains(&second), "{second}");
    }

    #[test]
    fn several_shares_of_a_holder_count_together_and_are_given_back() {
        let pool = Pool::new(100);
        let mut one = pool.take("a", 40).unwrap();
        let other = pool.take("a", 38).unwrap();
        assert!(pool.take("a", 40).is_none() && !one.grow(40) && pool.take("b", 101).is_none());
        assert!(one.resize(10) && one.amount() == 10);
        let part = one.split(4);
        assert_eq!((pool.in_use(), one.amount(), part.amount()), (48, 6, 4));
        drop(one);
        assert_eq!(pool.in_use(), 42);
        drop((part, other));
        assert_eq!((pool.in_use(), pool.held.lock().by_holder.len()), (0, 0));
        assert!(!pool.share("a").grow(usize::MAX));
    }
}
