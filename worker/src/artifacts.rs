//! Artifacts: the images, audio and files that a call produces in addition to its data.
//!
//! ```text
//! skill ──chunks──> Collector (one per call) ──small──> result, by value
//!                        └────────────────────large──> Store (one per worker) ──ranges──> FetchArtifact
//! ```
//!
//! - [`collector`]: assembles the artifacts of one call and enforces their limits
//! - [`label`]: makes file names and media types safe
//! - [`store`]: keeps large artifacts until they expire or are evicted, and limits the memory of incomplete ones

mod collector;
mod label;
mod store;

pub(crate) use collector::{Chunk, Collector};
pub(crate) use store::Store;
