//! Operations: calls that a store keeps until they have ended.

mod takeover;
