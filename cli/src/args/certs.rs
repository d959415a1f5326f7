//! The grammar of `openskill certs`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
pub(crate) struct CertsArgs {
    #[command(subcommand)]
    pub(crate) command: CertsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Make certificates for development: an authority, a gateway, a worker and a client; print the settings that use them
    Dev(DevCerts),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DevCerts {
    /// Directory for the files; it is created, and existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// How long the certificates are valid, in days
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=365))]
    pub(crate) days: u16,
    /// Further host name or IP address of the gateway, besides localhost, 127.0.0.1 and ::1; repeat the flag for several
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
}
