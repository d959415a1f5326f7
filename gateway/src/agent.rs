//! Starts the agent: inside the gateway process, or as a separate server.
//!
//! - [`in_process`]: gives the agent the skills of this gateway
//! - [`alone`]: serves an agent that calls the skills of a remote gateway

use std::io;
use std::sync::Arc;

use openskill_agent::hosted::Hosted;

use crate::gateway::{Gateway, Shard};

pub(crate) mod alone;
mod in_process;

/// Starts the agent on its own thread, if one is configured. It also runs the skills that are agents.
///
/// # Errors
/// Its conversations can't be opened.
pub(crate) async fn start(gateway: &Arc<Gateway>) -> io::Result<Option<Arc<Hosted>>> {
    let Some(mut setup) = gateway.config.agent.clone() else { return Ok(None) };
    setup.config.tracer.clone_from(&gateway.config.tracer);
    if gateway.config.operations.store.as_ref() == Some(&setup.config.store) {
        setup.store = gateway.long_running.open_store();
    }
    let skills = in_process::in_process(Shard { gateway: Arc::clone(gateway), number: 0 });
    let agent = Arc::new(Hosted::start(setup, skills).await.map_err(io::Error::other)?);
    gateway.use_agent(&agent);
    Ok(Some(agent))
}
