//! The grammar of `openskill agent`, and the agent flags of a gateway.

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct AgentArgs {
    /// Address to listen on, HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// URL of the gateway whose skills the agent calls
    #[arg(long, value_name = "URL")]
    pub(crate) gateway: Option<String>,
    #[command(flatten)]
    pub(crate) store: AgentStore,
}

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct AgentStore {
    /// File that the agent keeps conversations in, or `memory`
    #[arg(long = "agent-store", value_name = "FILE")]
    pub(crate) file: Option<String>,
}
