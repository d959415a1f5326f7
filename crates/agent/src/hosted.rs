//! An agent on a thread and a runtime of its own, so that conversations never delay whoever serves them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use openskill_proto::v1;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::agent::{Accepted, Agent, Events, Input};
use crate::config::{AgentConfig, Place};
use crate::delegation::{Answer, Task};
use crate::error::AgentError;
use crate::provider::Models;
use crate::skills::{Owner, Skills};

/// How much its threads give way to those that serve calls: they get a tenth of a core that all want.
const NICE: i32 = 10;

/// How an agent starts.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its settings.
    pub config: AgentConfig,
    /// Its models. The router answers if there are none.
    pub models: Models,
    /// Whether it starts without its file, in memory, if the file can't be opened. For a place that nobody asked for.
    pub or_memory: bool,
}

/// An agent that runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hosted {
    agent: Agent,
    runtime: Handle,
    /// Cancelled when no more events are sent.
    closed: CancellationToken,
    /// Ends the thread when the last clone is dropped.
    _thread: Arc<oneshot::Sender<()>>,
}

impl Hosted {
    /// Starts an agent: opens its conversations, and goes on with turns that a crash cut off.
    ///
    /// # Errors
    /// [`AgentError::Store`]: the conversations can't be opened, or the thread could not start.
    pub async fn start(setup: Setup, skills: Arc<dyn Skills>) -> Result<Self, AgentError> {
        let (started, starting) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // On Linux, of this thread alone, and of those that it starts.
            if let Err(error) = rustix::process::nice(NICE) {
                tracing::debug!(%error, "the agent's thread has the priority of all others");
            }
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(no_thread(&error)))),
            };
            runtime.block_on(async move {
                let agent = open(setup, skills).await.map(|agent| (agent, Handle::current()));
                let is_started = agent.is_ok();
                if started.send(agent).is_ok() && is_started {
                    // An error here is the end too: the sender is gone.
                    let _ = stopped.await;
                }
            });
            // A turn that still runs goes on at the next start.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("agent".to_owned()).spawn(run).map_err(|error| no_thread(&error))?;
        let (agent, runtime) =
            starting.await.map_err(|_| AgentError::Store("the agent's thread ended".to_owned()))??;
        Ok(Self { agent, runtime, closed: CancellationToken::new(), _thread: Arc::new(stop) })
    }

    /// As [`Agent::send`]. The input is taken even if the caller goes away meanwhile.
    ///
    /// # Errors
    /// The input is refused, and nothing was changed.
    pub async fn send(&self, owner: &Owner, conversation: &str, input: Input) -> Result<Accepted, AgentError> {
        let (owner, conversation) = (owner.clone(), conversation.to_owned());
        let agent = self.agent.clone();
        let accepted = self.there(async move { agent.send(&owner, &conversation, input).await }).await?;
        Ok(Accepted { events: self.until_closed(accepted.events), ..accepted })
    }

    /// As [`Agent::delegate`]. The sub-agent ends when the future is dropped.
    ///
    /// # Errors
    /// It can't begin, or did not end: then its calls may have had effects.
    pub async fn delegate(&self, task: Task, progress: mpsc::Sender<String>) -> Result<Answer, AgentError> {
        let cancel = CancellationToken::new();
        let _ends_with_this = cancel.clone().drop_guard();
        let agent = self.agent.clone();
        self.there(async move { agent.delegate(task, progress, cancel).await }).await
    }

    /// As [`Agent::events`].
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn events(
        &self,
        principal: &str,
        conversation: &str,
        after: u64,
        follow: bool,
    ) -> Result<Events, AgentError> {
        let events = self.agent.events(principal, conversation, after, follow).await?;
        Ok(self.until_closed(events))
    }

    /// As [`Agent::list`].
    ///
    /// # Errors
    /// [`AgentError::Invalid`]: the cursor; [`AgentError::Store`].
    pub async fn list(
        &self,
        principal: &str,
        request: v1::ListConversationsRequest,
    ) -> Result<v1::ListConversationsResponse, AgentError> {
        self.agent.list(principal, request).await
    }

    /// As [`Agent::get`].
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn get(&self, principal: &str, conversation: &str) -> Result<v1::Conversation, AgentError> {
        self.agent.get(principal, conversation).await
    }

    /// As [`Agent::delete`].
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn delete(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        let (agent, principal, conversation) = (self.agent.clone(), principal.to_owned(), conversation.to_owned());
        self.there(async move { agent.delete(&principal, &conversation).await }).await
    }

    /// Takes nothing new, waits at most `limit` for turns to stop between two entries, then ends all streams of events.
    pub async fn shutdown(&self, limit: Duration) {
        let agent = self.agent.clone();
        let stopping = self.there(async move {
            agent.shutdown().await;
            Ok(())
        });
        if tokio::time::timeout(limit, stopping).await.is_err() {
            tracing::warn!("the agent's turns did not stop in time: they go on at the next start");
        }
        self.closed.cancel();
    }

    /// Runs work on the agent's runtime, to its end.
    async fn there<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AgentError>> + Send + 'static,
    ) -> Result<T, AgentError> {
        // Nothing aborts the task but the runtime's end.
        self.runtime.spawn(work).await.unwrap_or(Err(AgentError::Shutdown))
    }

    fn until_closed(&self, events: Events) -> Events {
        let closed = self.closed.clone();
        let next = async |(mut events, closed): (Events, CancellationToken)| {
            let next = tokio::select! {
                biased;
                next = events.next() => next?,
                () = closed.cancelled() => {
                    return Some((Err(AgentError::Shutdown), (stream::empty().boxed(), closed)));
                }
            };
            Some((next, (events, closed)))
        };
        stream::unfold((events, closed), next).boxed()
    }
}

/// Opens the conversations where they are kept, or in memory if that is allowed.
async fn open(setup: Setup, skills: Arc<dyn Skills>) -> Result<Agent, AgentError> {
    let Setup { config, models, or_memory } = setup;
    match Agent::start(config.clone(), models.clone(), Arc::clone(&skills)).await {
        Err(AgentError::Store(reason)) if or_memory && config.place != Place::Memory => {
            tracing::warn!(reason, "conversations are kept in memory only: set OPENSKILL_AGENT_STORE to another file");
            Agent::start(AgentConfig { place: Place::Memory, ..config }, models, skills).await
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
    use crate::remote::Remote;

    #[tokio::test]
    async fn its_thread_gives_way_to_those_that_serve_calls() {
        let setup = Setup { config: AgentConfig::default(), models: Models::none(), or_memory: false };
        let skills = Arc::new(Remote::new(Endpoint::from_static("http://127.0.0.1:1"), None, |it| it.connect_lazy()));
        let hosted = Hosted::start(setup, skills).await.unwrap();
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let there = hosted.runtime.spawn(async move { priority() }).await.unwrap();
        assert_eq!(there, (priority() + NICE).min(19), "the kernel knows no higher value");
    }
}
