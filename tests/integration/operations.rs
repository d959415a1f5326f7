//! Operations: calls that a store keeps until they have ended.

mod commands;
mod histories;
mod keys;
mod rest;
mod retries;
mod shared;
mod stage;
mod takeover;
