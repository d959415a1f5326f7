//! Compiles the `.proto` files in Rust, so that nobody has to install `protoc`.

use std::path::PathBuf;

use prost::Message as _;

const FILES: [&str; 7] = [
    "openskill/v1/result.proto",
    "openskill/v1/circuit.proto",
    "openskill/v1/skill.proto",
    "openskill/v1/admin.proto",
    "openskill/v1/trace.proto",
    "openskill/v1/agent.proto",
    "openskill/v1/worker.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in FILES {
        println!("cargo:rerun-if-changed={file}");
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let compiled = protox::compile(FILES, ["."])?;
    // Reflection serves this set with its comments. The positions of everything else would make it four times as large.
    let mut reflected = compiled.clone();
    for info in reflected.file.iter_mut().filter_map(|file| file.source_code_info.as_mut()) {
        info.location.retain(|it| it.leading_comments.is_some() || it.trailing_comments.is_some());
    }
    std::fs::write(out.join("openskill.v1.descriptors.bin"), reflected.encode_to_vec())?;
    let grpc = std::env::var_os("CARGO_FEATURE_GRPC").is_some();
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::Codec")
        .build_client(grpc)
        .build_server(grpc)
        .build_transport(false)
        .compile_fds(compiled)?;
    Ok(())
}
