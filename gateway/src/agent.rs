//! The agent: in this process beside the calls of clients, or alone.
//!
//! - [`in_process`]: the skills of this gateway, as an agent sees them
//! - [`alone`]: a server of an agent that calls skills at another gateway

use std::io;
use std::sync::Arc;

use openskill_agent::hosted::Hosted;

use crate::gateway::{Gateway, Shard};

pub(crate) mod alone;
mod in_process;

/// Starts the agent on a thread of its own, if there is to be one. It also runs the skills that are agents.
///
/// # Errors
/// Its conversations can't be opened.
pub(crate) async fn start(gateway: &Arc<Gateway>) -> io::Result<Option<Arc<Hosted>>> {
    let Some(mut setup) = gateway.config.agent.clone() else { return Ok(None) };
    setup.config.tracer.clone_from(&gateway.config.tracer);
    let skills = in_process::in_process(Shard { gateway: Arc::clone(gateway), number: 0 });
    let agent = Arc::new(Hosted::start(setup, skills).await.map_err(io::Error::other)?);
    gateway.use_agent(&agent);
    Ok(Some(agent))
}
