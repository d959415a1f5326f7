//! TLS: on the gateway's addresses, between gateways and workers, and in client commands.

use std::process::{Command, Output};

use openskill_tests::binary;
use openskill_tests::certs::Certs;
use openskill_tests::folder::Folder;
use openskill_tests::system::Setup;

mod commands;
mod handshakes;
mod mesh;
mod public;
mod replaced;

/// The misbehaving skills behind a certificate.
fn up(certs: &Certs) -> Setup {
    Setup::up()
        .with("OPENSKILL_TLS_CERT", certs.file("gateway.pem"))
        .with("OPENSKILL_TLS_KEY", certs.file("gateway.key"))
}

/// Runs a client command with a home of its own.
fn run(home: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).env_clear().envs(environment.iter().copied()).env("HOME", home.path());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(home.path()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
