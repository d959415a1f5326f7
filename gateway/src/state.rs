//! Bounded state by key that the shards share.
//!
//! - [`key`]: builds keys
//! - [`recent`]: a bounded map; [`fair`]: one that principals share fairly
//! - [`striped`]: reduces contention by using several locks
//! - [`limits`]: the limits that principals share; [`lazy_share`]: a share that is taken on demand

pub(crate) mod fair;
pub(crate) mod key;
pub(crate) mod lazy_share;
pub(crate) mod limits;
pub(crate) mod recent;
pub(crate) mod striped;
