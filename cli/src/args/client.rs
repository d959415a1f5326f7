//! The flags of commands that talk to a gateway.

use clap::Args as ClapArgs;

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Client {
    /// URL of the gateway
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// API key for the gateway. Other users of this machine see it in the list of processes: prefer OPENSKILL_TOKEN or --token-file
    #[arg(long, value_name = "KEY", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,
    /// File with the API key, which only its owner may read
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<String>,
}
