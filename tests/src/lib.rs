//! The harness: starts the real binary on free ports, talks to it over the wire, and leaves nothing behind.
//!
//! - [`system`]: a running openskill
//! - [`rest`]: HTTP requests, also broken ones
//! - [`containers`]: what the container engine has
//! - [`processes`]: what runs on the machine
//! - [`folder`]: temporary folders; [`port`]: ports that are held
//! - [`backend`]: a server that skills send requests to
//! - [`require`]: what a machine may lack, and how a test is skipped
//! - [`alone`]: tests that run without others beside them
//! - [`own_thread`]: load on a thread of its own
//! - [`quantile`]: medians and percentiles
//! - [`wait`]: waiting on conditions; [`interrupt`]: on being asked to stop

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

pub mod alone;
pub mod backend;
pub mod containers;
pub mod folder;
pub mod interrupt;
pub mod own_thread;
pub mod port;
pub mod processes;
pub mod quantile;
pub mod require;
pub mod rest;
pub mod system;
pub mod wait;

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
    // Tests are one folder further down.
    let mut places = own.ancestors().skip(1).take(2).map(|folder| folder.join("openskill"));
    places.find(|path| path.is_file()).expect("the binary is not there: run `cargo build -p openskill` first")
}

/// Skills that misbehave.
pub fn fixtures() -> PathBuf {
    repository().join("tests/fixtures/skills")
}
