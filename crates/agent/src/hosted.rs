//! Runs an agent on its own thread and runtime, so that conversations never delay the server.

use std::sync::Arc;
use std::time::Duration;

use openskill_model::Models;
use openskill_store::{Location, Store};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::agent::{Accepted, Agent, Input};
use crate::config::AgentConfig;
use crate::delegation::{SubAgentResult, SubAgentTask};
use crate::error::AgentError;
use crate::skills::{Caller, SkillGateway};

/// The nice value of the agent's threads. On a busy core, they get a tenth of the CPU time of threads that serve
/// calls.
const NICE: i32 = 10;

/// The parameters of [`Hosted::start`].
#[derive(Debug, Clone)]
pub struct Setup {
    /// The agent's configuration.
    pub config: AgentConfig,
    /// The store at the location that `config` names, if this process has opened it.
    pub store: Option<Store>,
    /// The available models. Without models, the router answers.
    pub models: Models,
    /// Whether to fall back to memory if the file can't be opened. Used for the default file, which no setting
    /// names.
    pub or_memory: bool,
}

/// A running agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hosted {
    /// The agent. Use it directly only to read.
    pub(crate) agent: Agent,
    runtime: Handle,
    /// Stops the thread when the last clone is dropped.
    _thread: Arc<oneshot::Sender<()>>,
}

impl Hosted {
    /// Opens the agent's conversations, and resumes turns that a crash interrupted.
    ///
    /// # Errors
    /// [`AgentError::Store`]: the conversations can't be opened, or the thread can't start.
    pub async fn start(setup: Setup, skills: Arc<dyn SkillGateway>) -> Result<Self, AgentError> {
        let (started, starting) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // On Linux, this only affects the current thread and threads started by it.
            if let Err(error) = rustix::process::nice(NICE) {
                tracing::debug!(%error, "the priority of the agent's thread could not be lowered");
            }
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(no_thread(&error)))),
            };
            runtime.block_on(async move {
                let agent = open(setup, skills).await.map(|agent| (agent, Handle::current()));
                let is_started = agent.is_ok();
                if started.send(agent).is_ok() && is_started {
                    // An error also means that the sender was dropped.
                    let _ = stopped.await;
                }
            });
            // Turns that are still running resume at the next start.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("agent".to_owned()).spawn(run).map_err(|error| no_thread(&error))?;
        let (agent, runtime) =
            starting.await.map_err(|_| AgentError::Store("the agent's thread ended".to_owned()))??;
        Ok(Self { agent, runtime, _thread: Arc::new(stop) })
    }

    /// See [`Agent::send`]. The input is processed even if the caller stops waiting.
    ///
    /// # Errors
    /// The input is rejected and nothing has changed.
    pub async fn send(&self, caller: &Caller, conversation: &str, input: Input) -> Result<Accepted, AgentError> {
        let (caller, conversation) = (caller.clone(), conversation.to_owned());
        let agent = self.agent.clone();
        self.run_on_runtime(async move { agent.send(&caller, &conversation, input).await }).await
    }

    /// See [`Agent::delegate`]. Dropping the future stops the sub-agent.
    ///
    /// # Errors
    /// The sub-agent could not begin, or did not finish. If it did not finish, its calls may have had effects.
    pub async fn delegate(
        &self,
        task: SubAgentTask,
        progress: mpsc::Sender<String>,
    ) -> Result<SubAgentResult, AgentError> {
        let cancel = CancellationToken::new();
        let _ends_with_this = cancel.clone().drop_guard();
        let agent = self.agent.clone();
        self.run_on_runtime(async move { agent.delegate(task, progress, cancel).await }).await
    }

    /// See [`Agent::delete`].
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn delete(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        let (agent, principal, conversation) = (self.agent.clone(), principal.to_owned(), conversation.to_owned());
        self.run_on_runtime(async move { agent.delete(&principal, &conversation).await }).await
    }

    /// Stops accepting input, waits at most `limit` until running turns stop between two entries, and ends all
    /// event streams.
    pub async fn shutdown(&self, limit: Duration) {
        let agent = self.agent.clone();
        let stopping = self.run_on_runtime(async move {
            agent.shutdown().await;
            Ok(())
        });
        if tokio::time::timeout(limit, stopping).await.is_err() {
            tracing::warn!("the agent's turns did not stop in time: they continue at the next start");
        }
        self.agent.end_streams();
    }

    /// Runs a future on the agent's runtime. The future completes even if the caller stops waiting.
    async fn run_on_runtime<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AgentError>> + Send + 'static,
    ) -> Result<T, AgentError> {
        // Only a shutdown of the runtime aborts the task.
        self.runtime.spawn(work).await.unwrap_or(Err(AgentError::Shutdown))
    }
}

/// Opens the conversations at their configured location. Falls back to memory if allowed.
async fn open(setup: Setup, skills: Arc<dyn SkillGateway>) -> Result<Agent, AgentError> {
    let Setup { config, store, models, or_memory } = setup;
    match Agent::start(config.clone(), store, models.clone(), Arc::clone(&skills)).await {
        Err(AgentError::Store(reason)) if or_memory && config.store != Location::Memory => {
            tracing::warn!(reason, "conversations are kept in memory only: set OPENSKILL_AGENT_STORE to another file");
            Agent::start(AgentConfig { store: Location::Memory, ..config }, None, models, skills).await
        }
        started => started,
    }
}

fn no_thread(error: &std::io::Error) -> AgentError {
    AgentError::Store(format!("the agent's thread could not start: {error}"))
}

#[cfg(test)]
mod tests {
    use tonic::transport::Endpoint;

    use super::*;
    use crate::remote::RemoteGateway;

    #[tokio::test]
    async fn its_thread_gives_way_to_those_that_serve_calls() {
        let setup = Setup { config: AgentConfig::default(), store: None, models: Models::none(), or_memory: false };
        let skills =
            Arc::new(RemoteGateway::new(Endpoint::from_static("http://127.0.0.1:1"), None, |it| it.connect_lazy()));
        let hosted = Hosted::start(setup, skills).await.unwrap();
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let there = hosted.runtime.spawn(async move { priority() }).await.unwrap();
        assert_eq!(there, (priority() + NICE).min(19), "the kernel knows no higher value");
    }
}
