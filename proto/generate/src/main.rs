//! Writes `proto/generated` from the `.proto` files. Needs no `protoc`.

use std::error::Error;
use std::fs;
use std::path::Path;

use prost::Message as _;
use sha2::{Digest as _, Sha256};

/// Google's packages, which are modules of the crate beside `v1`.
const GOOGLE: [&str; 2] = ["google/rpc/status.proto", "google/longrunning/operations.proto"];

const FILES: [&str; 8] = [
    "openskill/v1/result.proto",
    "openskill/v1/circuit.proto",
    "openskill/v1/skill.proto",
    "openskill/v1/admin.proto",
    "openskill/v1/trace.proto",
    "openskill/v1/agent.proto",
    "openskill/v1/worker.proto",
    "openskill/v1/operation.proto",
];

const GRPC: &str = r#"#[cfg(feature = "grpc")]"#;

fn main() -> Result<(), Box<dyn Error>> {
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = contract.join("generated");
    let compiled = protox::compile(FILES, [&contract])?;
    // Reflection serves this set with its comments. The positions of everything else would make it four times as large.
    let mut reflected = compiled.clone();
    for info in reflected.file.iter_mut().filter_map(|file| file.source_code_info.as_mut()) {
        info.location.retain(|it| it.leading_comments.is_some() || it.trailing_comments.is_some());
    }
    fs::write(out.join("openskill.v1.descriptors.bin"), reflected.encode_to_vec())?;
    let builder = || {
        tonic_prost_build::configure()
            .out_dir(&out)
            .bytes(".")
            .codec_path("crate::codec::Codec")
            .build_transport(false)
            .client_mod_attribute(".", GRPC)
            .server_mod_attribute(".", GRPC)
    };
    let google = |package: &str| (format!(".google.{package}"), format!("crate::{package}"));
    let ((longrunning, its), (rpc, own)) = (google("longrunning"), google("rpc"));
    builder().extern_path(longrunning, its).extern_path(rpc, own).compile_fds(compiled)?;
    // Last, because the line before writes these files without their messages.
    builder().compile_fds(protox::compile(GOOGLE, [&contract])?)?;
    fs::write(out.join("source.sha256"), digest(&contract)?)?;
    Ok(())
}

/// Checksums of the sources, which a test compares: it fails if a file changed and this program did not run.
fn digest(contract: &Path) -> Result<String, Box<dyn Error>> {
    let mut lines = String::new();
    for file in GOOGLE.iter().chain(&FILES) {
        let sum: String =
            Sha256::digest(fs::read(contract.join(file))?).iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("{sum}  {file}\n"));
    }
    Ok(lines)
}
