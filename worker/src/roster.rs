//! The names of a worker's skills, for whoever must not know the registry that has them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// The names that are in use.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// Skills, tools of servers among them, and whether each can be called here.
    pub(crate) skills: HashMap<String, bool>,
    /// Manifests: the skills, and the servers whose tools are skills.
    pub(crate) manifests: HashSet<String>,
    pub(crate) toolsets: HashSet<String>,
}

/// The names, as they change.
#[derive(Debug)]
pub(crate) struct Roster {
    current: watch::Sender<Arc<Names>>,
    wanted: Notify,
}

impl Default for Roster {
    fn default() -> Self {
        Self { current: watch::Sender::default(), wanted: Notify::new() }
    }
}

impl Roster {
    /// Takes over the names of a new snapshot.
    pub(crate) fn publish(&self, names: Names) {
        self.current.send_replace(Arc::new(names));
    }

    /// The names as they change.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Names>> {
        self.current.subscribe()
    }

    /// The names now.
    pub(crate) fn names(&self) -> Arc<Names> {
        Arc::clone(&self.current.borrow())
    }

    /// Asks for a look at the skill folders before it is due.
    pub(crate) fn hurry(&self) {
        self.wanted.notify_one();
    }

    /// Waits until somebody asks. Safe to drop and call again.
    pub(crate) async fn hurried(&self) {
        self.wanted.notified().await;
    }
}
