//! Bounded state by key that the shards share: [`key`] makes the keys, [`recent`] bounds what is remembered, [`striped`]
//! keeps shards from waiting for one lock. And [`memory`]: budgets for bodies; [`followed`]: files that may change.

pub(crate) mod followed;
pub(crate) mod key;
pub(crate) mod memory;
pub(crate) mod recent;
pub(crate) mod striped;
