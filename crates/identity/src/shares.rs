//! Fair shares of something that runs out, such as memory or places. Each holder may hold four times as much as is free. So
//! one holder that takes all it can leaves a fifth to the others, and several that do share the rest evenly (Choudhury and
//! Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches"). Less than half of an even share is granted
//! whatever the others hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much a holder may hold for each unit that is free.
const PER_FREE_UNIT: usize = 4;

/// Whether a holder may hold `mine`, which includes what it asks for, while `used` of `limit` are held by `holders` in all.
pub fn is_fair(mine: usize, used: usize, limit: usize, holders: usize) -> bool {
    2 * mine * holders <= limit || mine <= PER_FREE_UNIT * limit.saturating_sub(used)
}

/// How much one of `holders` can hold of `limit` units, while it holds `mine` of the `used` ones and the others keep theirs. Its
/// own parts, such as its sessions, share that.
pub fn reachable(mine: usize, used: usize, limit: usize, holders: usize) -> usize {
    let left_by_others = limit.saturating_sub(used.saturating_sub(mine));
    // The last unit that `is_fair` grants leaves a fifth of this.
    let share = (left_by_others + 1) - (left_by_others + 1).div_ceil(PER_FREE_UNIT + 1);
    share.max(limit / (2 * holders.max(1)))
}

/// A pool of `limit` units that holders, usually principals, share fairly. Clones are the same pool.
#[derive(Debug, Clone)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    held: Mutex<Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    /// A holder of nothing has no entry.
    by_holder: HashMap<Arc<str>, usize>,
}

/// What a holder has of a [`Pool`]. Dropping it gives everything back.
#[derive(Debug)]
pub struct Share {
    pool: Pool,
    holder: Arc<str>,
    amount: usize,
}

impl Pool {
    /// A pool of `limit` units.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared { limit, held: Mutex::default() }))
    }

    /// A share that holds nothing yet.
    pub fn share(&self, holder: impl Into<Arc<str>>) -> Share {
        Share { pool: self.clone(), holder: holder.into(), amount: 0 }
    }

    /// A share of `amount` units. None if the pool has no room for it, or it is more than fair.
    pub fn take(&self, holder: impl Into<Arc<str>>, amount: usize) -> Option<Share> {
        let mut share = self.share(holder);
        share.grow(amount).then_some(share)
    }

    /// How many units there are.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// How many units are held.
    pub fn used(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// How many units it holds.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Holds `more` units more. False if they are not to be had or more than fair; the share does not change then.
    pub fn grow(&mut self, more: usize) -> bool {
        let limit = self.pool.0.limit;
        let mut held = self.pool.lock();
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

    /// Holds `more` units more, whatever the pool allows: for what exists already.
    pub fn count(&mut self, more: usize) {
        let mut held = self.pool.lock();
        held.total = held.total.saturating_add(more);
        *held.by_holder.entry(Arc::clone(&self.holder)).or_default() += more;
        self.amount += more;
    }

    /// Takes `amount` units of this share, or all if it holds fewer, as a share of their own.
    pub fn split(&mut self, amount: usize) -> Self {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Self { pool: self.pool.clone(), holder: Arc::clone(&self.holder), amount }
    }

    /// Gives back `less` units, or all if it holds fewer.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.amount);
        self.amount -= less;
        let mut held = self.pool.lock();
        held.total -= less;
        if let Some(mine) = held.by_holder.get_mut(&self.holder) {
            *mine -= less;
            if *mine == 0 {
                held.by_holder.remove(&self.holder);
            }
        }
    }

    /// Holds exactly `amount` units. False if they are not to be had or more than fair; the share does not change then.
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

    /// How much each of `holders` gets if they take turns, one unit at a time, until none gets more.
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
        assert_eq!((pool.used(), one.amount(), part.amount()), (48, 6, 4));
        drop(one);
        assert_eq!(pool.used(), 42);
        drop((part, other));
        assert_eq!((pool.used(), pool.lock().by_holder.len()), (0, 0));
        assert!(!pool.share("a").grow(usize::MAX));
    }
}
