//! Operations: calls that a store keeps until they have ended.

mod artifacts;
mod commands;
mod counts;
mod histories;
mod keys;
mod questions;
mod rest;
mod retries;
mod shared;
pub(crate) mod stage;
mod takeover;
mod webhooks;
