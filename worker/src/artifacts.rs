//! Artifacts: the images, audio and files that a call produces in addition to its data.
//!
//! ```text
//! skill ──chunks──> Collector (one per call) ──small──> result, by value
//!                        └────────────────────large──> Store (one per worker) ──ranges──> FetchArtifact
//! ```
//!
//! - [`collector`]: assembles the artifacts of one call and enforces their limits
//! - [`label`]: makes file names and media types safe
//! - [`store`]: keeps large artifacts until they expire or are evicted
//! - [`unfinished`]: the worker's memory budget for incomplete artifacts

mod collector;
mod label;
mod store;
mod unfinished;

pub(crate) use collector::{Chunk, Collector};
pub(crate) use store::Store;
