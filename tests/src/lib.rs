//! The harness: starts the real binary, talks to it over the wire, and leaves nothing behind.
//!
//! - [`system`]: a running openskill
//! - [`rest`]: HTTP requests, valid and invalid
//! - [`containers`]: a container image, and queries to the engine
//! - [`processes`]: the processes of the machine
//! - [`folder`]: temporary directories; [`port`]: reserved ports
//! - [`backend`]: an HTTP server for skills to call; [`tls`]: TLS in front of a server; [`certs`]: certificates and clients
//! - [`postgres`]: a database server
//! - [`tokens`]: issuers of signed tokens
//! - [`wheel`], [`mcp_wheel`]: packages of Python, and MCP servers in them
//! - [`require`]: what a machine may lack, and how tests are skipped
//! - [`alone`]: timed tests run alone; [`soak`]: how often tests repeat something
//! - [`own_thread`]: load on a thread of its own; [`elsewhere`]: load that stands for other machines
//! - [`terminal`]: a terminal to write to
//! - [`quantile`]: medians and percentiles
//! - [`history`]: histories of operations, and what must not be in them
//! - [`wait`]: waiting on conditions; [`interrupt`]: on signals

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

pub mod alone;
pub mod backend;
pub mod certs;
pub mod containers;
pub mod elsewhere;
pub mod folder;
pub mod history;
pub mod interrupt;
pub mod mcp_wheel;
pub mod own_thread;
pub mod port;
pub mod postgres;
pub mod processes;
pub mod quantile;
pub mod require;
pub mod rest;
pub mod soak;
pub mod system;
pub mod terminal;
pub mod tls;
pub mod tokens;
pub mod wait;
pub mod wheel;

use std::path::PathBuf;

/// The checkout.
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The binary under test: `OPENSKILL_BIN`, or the one cargo built beside this test or program.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("OPENSKILL_BIN") {
        return repository().join(path);
    }
    let own = std::env::current_exe().unwrap();
    // Test binaries are one folder further down.
    let mut candidates = own.ancestors().skip(1).take(2).map(|folder| folder.join("openskill"));
    candidates
        .find(|path| path.is_file())
        .expect("the openskill binary was not found; run `cargo build -p openskill` first")
}

/// The program of the gateway's image, which has no worker: `OPENSKILL_GATEWAY_BIN`, or the one that `make gateway` put beside
/// [`binary`]. None if there is none.
pub fn gateway_binary() -> Option<PathBuf> {
    let beside = || binary().with_file_name("openskill-gateway");
    let path = std::env::var_os("OPENSKILL_GATEWAY_BIN").map_or_else(beside, |path| repository().join(path));
    path.is_file().then_some(path)
}

/// Skills that misbehave.
pub fn fixtures() -> PathBuf {
    repository().join("tests/fixtures/skills")
}
