//! One browser: the connection to it, what is known of its tabs, and what ends it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use openskill_cdp::client::{CallError, Client};
use openskill_cdp::message::Event;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::descriptors::{receive, send};
use super::documents::Documents;
use super::host_process::is_plain;
use super::numbers::Numbers;
use super::problem::Problem;
use super::relay::Seen;
use super::tabs::{Tab, Tabs};
use crate::process::launch::Running;

/// How long the browser may take for what needs no page.
pub(super) const PROMPT: Duration = Duration::from_secs(10);

/// How long a page may take for what its own scripts may hold up.
pub(super) const OF_PAGE: Duration = Duration::from_secs(5);

/// How long, and how often, a page is waited for whose scripts were stopped.
const STOPS: Duration = Duration::from_secs(1);
const MOST_STOPS: usize = 3;

/// How many documents of other processes are looked at, of a page that is stuck.
const MOST_PARTS: usize = 32;

/// What the task that reads events shares with calls.
pub(super) struct State {
    tabs: Mutex<Tabs>,
    changes: watch::Sender<u64>,
}

impl State {
    pub(super) fn new(tabs: Tabs) -> Self {
        Self { tabs: Mutex::new(tabs), changes: watch::Sender::new(0) }
    }

    pub(super) fn tabs(&self) -> MutexGuard<'_, Tabs> {
        self.tabs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an event, and sends what it calls for.
    pub(super) fn on(&self, client: &Client, event: &Event) {
        let orders = self.tabs().on(event);
        for order in orders {
            if !client.tell(order.session.as_deref(), order.method, &order.params) {
                // A page would stay as it is, and nobody would know of it.
                client.close();
            }
        }
        self.changes.send_modify(|it| *it += 1);
    }

    /// Waits until `found` finds something, at most this long.
    pub(super) async fn wait<T>(&self, time: Duration, mut found: impl FnMut(&Tabs) -> Option<T>) -> Option<T> {
        let mut changes = self.changes.subscribe();
        let wait = async {
            loop {
                if let Some(found) = found(&self.tabs()) {
                    return Some(found);
                }
                changes.changed().await.ok()?;
            }
        };
        tokio::time::timeout(time, wait).await.ok().flatten()
    }
}

/// What ends with the browser. Dropping it kills the process tree.
pub(super) struct Life {
    pub(super) running: Option<Running<()>>,
    pub(super) runtime: Handle,
    pub(super) tasks: Vec<AbortOnDropHandle<()>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        // What waits for the end of the process needs a runtime.
        let _runtime = self.runtime.enter();
        drop(self.running.take());
        self.tasks.clear();
    }
}

/// A browser.
pub(super) struct Browser {
    pub(super) client: Client,
    pub(super) state: Arc<State>,
    pub(super) seen: Arc<Seen>,
    pub(super) documents: Documents,
    pub(super) numbers: Numbers,
    /// The socket to its host process.
    pub(super) host: UnixStream,
    pub(super) _life: Life,
}

impl Browser {
    /// Whether it still runs, as far as the worker knows.
    pub(super) fn is_alive(&self) -> bool {
        !self.client.is_closed()
    }

    /// The tab that calls are about.
    ///
    /// # Errors
    /// There is none, or its page has crashed.
    pub(super) fn tab(&self) -> Result<Tab, Problem> {
        let tab = self.state.tabs().current().cloned().ok_or(Problem::NoTab)?;
        if tab.has_crashed { Err(Problem::Crashed) } else { Ok(tab) }
    }

    /// Calls a method of the browser itself.
    ///
    /// # Errors
    /// It refuses, is late or gone.
    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Value, Problem> {
        Ok(self.client.call(None, method, &params, PROMPT).await?)
    }

    /// Calls a method of a page or a frame.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub(super) async fn of_page(&self, session: &str, method: &str, params: Value) -> Result<Value, Problem> {
        of_page(&self.client, session, method, params).await
    }

    /// Shows the tab that calls are about: another one may have come to the front, and what is behind it draws nothing.
    ///
    /// # Errors
    /// The browser is gone.
    pub(super) async fn show(&self) -> Result<(), Problem> {
        let (target, is_alone) = {
            let tabs = self.state.tabs();
            (tabs.current().map(|it| it.target.clone()), tabs.all().len() < 2)
        };
        match target.filter(|_| !is_alone) {
            // A tab may go at any time.
            Some(target) => match self.call("Target.activateTarget", json!({"targetId": target})).await {
                Err(Problem::Call(CallError::Refused(_))) | Ok(_) => Ok(()),
                Err(problem) => Err(problem),
            },
            None => Ok(()),
        }
    }

    /// Stops what scripts of a page run, until it answers. They may go on with their next event. A page that answers is left
    /// as it is, and one that does not let itself be stopped is crashed. Takes ten seconds at most.
    pub(super) async fn stop_scripts(&self, tab: &Tab) {
        let nothing = json!({});
        let mut stuck: Vec<&str> = tab.parts.iter().map(|it| it.session.as_str()).take(MOST_PARTS).collect();
        stuck.push(&tab.session);
        for round in 0..=MOST_STOPS {
            stuck = join_all(stuck.into_iter().map(|it| self.stuck(it))).await.into_iter().flatten().collect();
            if !stuck.contains(&tab.session.as_str()) && (stuck.is_empty() || round == MOST_STOPS) {
                return;
            }
            let stop = |session| self.client.call(Some(session), "Runtime.terminateExecution", &nothing, STOPS);
            join_all(stuck.iter().copied().map(stop)).await;
        }
        // This one needs nothing of the page's own thread.
        let _ = self.client.call(Some(&tab.session), "Page.crash", &nothing, STOPS).await;
        let id = tab.id;
        self.state.wait(STOPS, |tabs| tabs.get(id).is_none_or(|it| it.has_crashed).then_some(())).await;
    }

    /// The session, if what it is attached to does not answer.
    async fn stuck<'s>(&self, session: &'s str) -> Option<&'s str> {
        let alive = self.client.call(Some(session), "Runtime.evaluate", &json!({"expression": "0"}), STOPS).await;
        matches!(alive, Err(CallError::Late(_))).then_some(session)
    }

    /// Opens a file that was downloaded.
    pub(super) async fn downloaded(&self, id: &str) -> Option<OwnedFd> {
        let opened = async {
            send(&self.host, id.as_bytes(), None).ok()?;
            loop {
                let (name, file) = self.host.async_io(Interest::READABLE, || receive(&self.host)).await.ok()??;
                // A call that ended meanwhile may have left its answer.
                if name == id.as_bytes() {
                    return file.filter(is_plain);
                }
            }
        };
        tokio::time::timeout(PROMPT, opened).await.ok().flatten()
    }
}

/// Calls a method of a page or a frame.
///
/// # Errors
/// The browser refuses, is late or gone.
pub(super) async fn of_page(client: &Client, session: &str, method: &str, params: Value) -> Result<Value, Problem> {
    client.call(Some(session), method, &params, OF_PAGE).await.map_err(|error| match error {
        CallError::Late(time) => {
            tracing::debug!(method, "a page does not answer");
            Problem::Stuck(time)
        }
        other => other.into(),
    })
}
