//! Artifacts: the pictures, sounds and files that a call produces beside its data.
//!
//! ```text
//! skill ──chunks──> Collector (one per call) ──small──> result, by value
//!                        └────────────────────large──> Store (one per worker) ──ranges──> FetchArtifact
//! ```
//!
//! - [`collector`]: assembles the chunks of one call's artifacts and enforces the bounds of a call
//! - [`label`]: file names and media types that are safe to pass on
//! - [`store`]: the large ones, until they are read, expire or are evicted
//! - [`unfinished`]: the worker's budget for artifacts whose last chunk has not come

mod collector;
mod label;
mod store;
mod unfinished;

pub(crate) use collector::{Chunk, Collector};
pub(crate) use store::Store;
