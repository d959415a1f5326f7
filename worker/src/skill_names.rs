//! The names of a worker's skills, for modules that must not depend on the registry.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::{Notify, watch};

/// The names that a worker's skills, manifests and toolsets use.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct NamesInUse {
    /// Skill ids, including servers' tools, and whether each skill can be called here.
    pub(crate) skills: HashMap<String, bool>,
    /// Manifest ids: skills, and servers whose tools are skills.
    pub(crate) manifests: HashSet<String>,
    pub(crate) toolsets: HashSet<String>,
}

/// The current names, with change notifications.
#[derive(Debug, Default)]
pub(crate) struct SkillNames {
    current: watch::Sender<Arc<NamesInUse>>,
    wanted: Notify,
}

impl SkillNames {
    /// Publishes the names of a new snapshot.
    pub(crate) fn publish(&self, names: NamesInUse) {
        self.current.send_replace(Arc::new(names));
    }

    /// Returns a receiver of the current names and of changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<NamesInUse>> {
        self.current.subscribe()
    }

    /// Returns the current names.
    pub(crate) fn names(&self) -> Arc<NamesInUse> {
        Arc::clone(&self.current.borrow())
    }

    /// Requests an early scan of the skill folders.
    pub(crate) fn request_reload(&self) {
        self.wanted.notify_one();
    }

    /// Waits until an early scan is requested. Cancel safe.
    pub(crate) async fn wait_for_reload_request(&self) {
        self.wanted.notified().await;
    }
}
