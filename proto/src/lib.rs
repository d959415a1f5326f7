//! The contract between callers, gateway and workers: messages, the error table, header names, limits.
//!
//! Depends on nothing else of openskill, and holds nothing that only one side needs.
//!
//! - [`v1`]: the generated messages, clients and servers of package `openskill.v1`
//! - [`error`]: what each error code means for caller, circuit and status: one table
//! - [`json`]: what both sides ask of JSON text before they parse it; [`schema`]: what of a skill's schema
//! - [`trace`]: trace ids and W3C trace context
//! - [`deadline`]: time-outs as they travel in headers
//! - [`metadata`]: header and metadata names
//! - [`limits`]: bounds that no configuration can lift
//! - [`local`]: the unix socket between two processes of one machine

mod codec;
pub mod deadline;
mod dialect;
pub mod error;
pub mod json;
pub mod limits;
pub mod local;
pub mod metadata;
pub mod schema;
pub mod trace;

/// Package `openskill.v1`, generated from `proto/openskill/v1/*.proto`. The documentation is in those files.
#[allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]
pub mod v1 {
    tonic::include_proto!("openskill.v1");
}

/// The compiled descriptors of `openskill.v1`, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openskill.v1.descriptors.bin"));
