//! The contract between callers, gateway and workers: messages, the error table, header names and limits.
//!
//! A client needs only this crate of openskill. Without the feature `grpc`, it depends on neither a runtime nor a
//! gRPC stack.
//!
//! - [`v1`]: the generated messages of package `openskill.v1`, and with `grpc` its clients and servers
//! - [`error`]: the meaning of each error code for the caller, the circuit breaker and the status, in one table
//! - [`render`]: results, events and skills as JSON text
//! - [`json`]: parses requests, and checks JSON text without parsing it
//! - [`trace`]: trace ids and W3C trace context
//! - [`model_text`]: the tags, code fences, strings and JSON values in a model's text
//! - [`uri_template`]: matches URIs with templates, and extracts the values of variables
//! - [`timestamp`]: points in time as text
//! - [`deadline`]: timeouts in headers
//! - [`metadata`]: names of headers and metadata
//! - [`limits`]: limits that no configuration can raise

mod approval;
#[cfg(feature = "grpc")]
mod codec;
pub mod deadline;
mod dialect;
pub mod error;
pub mod json;
pub mod limits;
pub mod metadata;
pub mod model_text;
pub mod render;
pub mod timestamp;
pub mod trace;
mod tracestate;
pub mod uri_template;
#[cfg(feature = "grpc")]
mod wire;

/// Package `openskill.v1`, generated from `proto/openskill/v1/*.proto` by `make proto`. The documentation is in
/// those files.
#[allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]
pub mod v1 {
    include!("../generated/openskill.v1.rs");
}

/// Package `google.longrunning`: the standard service for operations.
#[allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]
pub mod longrunning {
    include!("../generated/google.longrunning.rs");
}

/// The part of package `google.rpc` that operations use.
#[allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]
pub mod rpc {
    include!("../generated/google.rpc.rs");
}

/// The compiled descriptors of `openskill.v1`, for gRPC reflection.
#[cfg(feature = "grpc")]
pub const DESCRIPTORS: &[u8] = include_bytes!("../generated/openskill.v1.descriptors.bin");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sha2::{Digest as _, Sha256};

    #[test]
    fn the_generated_code_matches_the_contract() {
        let contract = Path::new(env!("CARGO_MANIFEST_DIR"));
        let known = include_str!("../generated/source.sha256");
        for line in known.lines() {
            let (sum, file) = line.split_once("  ").unwrap();
            let source = std::fs::read(contract.join(file)).unwrap();
            assert_eq!(crate::trace::hex(&Sha256::digest(source)), sum, "{file} changed: run `make proto`");
        }
        let own = known.lines().filter(|line| line.contains("openskill/v1/")).count();
        let files = std::fs::read_dir(contract.join("openskill/v1")).unwrap().count();
        assert_eq!(own, files, "a file is not generated: name it in proto/generate/src/main.rs");
    }
}
