//! Bounded state by key that the shards share: [`key`] makes the keys, [`recent`] bounds what is remembered, [`fair`] does that
//! by principal, [`striped`] keeps shards from waiting for one lock. And [`limits`]: what is kept for principals, and how much of it; [`lazy_share`]: a
//! share that few bodies need; [`followed`]: files that may change.

pub(crate) mod fair;
pub(crate) mod followed;
pub(crate) mod key;
pub(crate) mod lazy_share;
pub(crate) mod limits;
pub(crate) mod recent;
pub(crate) mod striped;
