//! A running browser: its connection, the state of its tabs, and its shutdown.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::browser::cdp::client::{CallError, Client};
use crate::browser::cdp::message::Event;
use futures_util::future::join_all;
use openskill_sandbox::launch::SupervisedRun;
use parking_lot::{Mutex, MutexGuard};
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
use super::relay::RelayLog;
use super::tabs::{Tab, Tabs};

/// The time limit for calls that don't involve a page.
pub(super) const PROMPT: Duration = Duration::from_secs(10);

/// The time limit for calls that a page's scripts can block.
const OF_PAGE: Duration = Duration::from_secs(5);

/// How long to wait for each attempt to stop a page's scripts. `MOST_STOPS` limits the attempts.
const STOPS: Duration = Duration::from_secs(1);
const MOST_STOPS: usize = 3;

/// The maximum number of out-of-process frames of a stuck page that are checked.
const MOST_PARTS: usize = 32;

/// State shared between the event reader task and calls.
pub(super) struct State {
    tabs: Mutex<Tabs>,
    changes: watch::Sender<u64>,
}

impl State {
    pub(super) fn new(tabs: Tabs) -> Self {
        Self { tabs: Mutex::new(tabs), changes: watch::Sender::new(0) }
    }

    pub(super) fn tabs(&self) -> MutexGuard<'_, Tabs> {
        self.tabs.lock()
    }

    /// Handles an event and sends the resulting commands to the browser.
    pub(super) fn on(&self, client: &Client, event: &Event) {
        let orders = self.tabs().on(event);
        for order in orders {
            if !client.send(order.session.as_deref(), order.method, &order.params) {
                // If a command can't be sent, the page would silently stay in its current state.
                client.close();
            }
        }
        self.changes.send_modify(|it| *it += 1);
    }

    /// Waits until `found` returns a value, for at most `time`.
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

/// Owns the process tree and the tasks of a browser. Dropping it kills the process tree.
pub(super) struct Life {
    pub(super) running: Option<SupervisedRun<()>>,
    pub(super) runtime: Handle,
    pub(super) tasks: Vec<AbortOnDropHandle<()>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        // Waiting for the process to exit requires a runtime.
        let _runtime = self.runtime.enter();
        drop(self.running.take());
        self.tasks.clear();
    }
}

/// A running browser with the state that the worker keeps about it.
pub(super) struct Browser {
    pub(super) client: Client,
    pub(super) state: Arc<State>,
    pub(super) relay_log: Arc<RelayLog>,
    pub(super) documents: Documents,
    pub(super) numbers: Numbers,
    /// The socket to the host process.
    pub(super) host: UnixStream,
    pub(super) _life: Life,
}

impl Browser {
    /// Returns whether the connection is still open.
    pub(super) fn is_alive(&self) -> bool {
        !self.client.is_closed()
    }

    /// Returns the caller's current tab.
    ///
    /// # Errors
    /// No tab is open, or its page has crashed.
    pub(super) fn tab(&self) -> Result<Tab, Problem> {
        let tab = self.state.tabs().current().cloned().ok_or(Problem::NoTab)?;
        if tab.has_crashed { Err(Problem::Crashed) } else { Ok(tab) }
    }

    /// Calls a DevTools method of the browser itself.
    ///
    /// # Errors
    /// The browser rejects the call, does not answer in time, or is gone.
    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Value, Problem> {
        Ok(self.client.call(None, method, &params, PROMPT).await?)
    }

    /// Calls a DevTools method of a page or a frame.
    ///
    /// # Errors
    /// The same as for [`Browser::call`].
    pub(super) async fn call_page(&self, session: &str, method: &str, params: Value) -> Result<Value, Problem> {
        call_page(&self.client, session, method, params).await
    }

    /// Brings the current tab to the front, because the browser does not draw hidden tabs.
    ///
    /// # Errors
    /// The browser is gone.
    pub(super) async fn show(&self) -> Result<(), Problem> {
        let (target, is_alone) = {
            let tabs = self.state.tabs();
            (tabs.current().map(|it| it.target.clone()), tabs.all.len() < 2)
        };
        let Some(target) = target.filter(|_| !is_alone) else { return Ok(()) };
        match self.call("Target.activateTarget", json!({"targetId": target})).await {
            // The tab may disappear at any time.
            Err(Problem::Call(CallError::Refused(_))) | Ok(_) => Ok(()),
            Err(problem) => Err(problem),
        }
    }

    /// Stops the running scripts of a page until the page answers. Its scripts may run again on the next event.
    /// Does nothing if the page already answers, and crashes the page if its scripts can't be stopped. Takes at
    /// most ten seconds.
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
        // The crash command does not depend on the page's own thread.
        let _ = self.client.call(Some(&tab.session), "Page.crash", &nothing, STOPS).await;
        let id = tab.id;
        self.state.wait(STOPS, |tabs| tabs.get(id).is_none_or(|it| it.has_crashed).then_some(())).await;
    }

    /// Returns the session if its target does not answer.
    async fn stuck<'s>(&self, session: &'s str) -> Option<&'s str> {
        let alive = self.client.call(Some(session), "Runtime.evaluate", &json!({"expression": "0"}), STOPS).await;
        matches!(alive, Err(CallError::Late(_))).then_some(session)
    }

    /// Requests a downloaded file from the host process. Returns `None` if it does not exist or is not a regular
    /// file.
    pub(super) async fn open_download(&self, id: &str) -> Option<OwnedFd> {
        let opened = async {
            send(&self.host, id.as_bytes(), None).ok()?;
            loop {
                let (name, file) = self.host.async_io(Interest::READABLE, || receive(&self.host)).await.ok()??;
                // An interrupted call may have left its answer in the socket.
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
/// The browser rejects the call, does not answer in time, or is gone.
pub(super) async fn call_page(client: &Client, session: &str, method: &str, params: Value) -> Result<Value, Problem> {
    client.call(Some(session), method, &params, OF_PAGE).await.map_err(|error| match error {
        CallError::Late(time) => {
            tracing::debug!(method, "a page does not answer");
            Problem::Stuck(time)
        }
        other => other.into(),
    })
}
