//! The documents of a tab: the main one and those of its frames, each with the script, and how they are in each other.

use std::time::Duration;

use futures_util::future::{join, join_all};
use openskill_cdp::client::Client;
use serde_json::{Value, json};

use super::documents::{Document, GROUP, Heard, Place};
use super::instance::{Browser, of_page};
use super::problem::Problem;
use super::tabs::{Part, Tab};

/// Frames of one page that are looked into.
pub(super) const MOST_FRAMES: usize = 32;

/// Elements with listeners that the script is told of at a time.
const MOST_HEARD: usize = 500;

/// Closed shadow roots that the script is shown at a time.
const MOST_HOSTS: u64 = 20;

/// How long what only helps may take.
const HELP: Duration = Duration::from_secs(1);

/// Events that an element with a listener for them can be used by.
const USED_BY: [&str; 13] = [
    "click",
    "dblclick",
    "mousedown",
    "mouseup",
    "pointerdown",
    "pointerup",
    "touchstart",
    "contextmenu",
    "dragstart",
    "keydown",
    "mouseover",
    "mouseenter",
    "mousemove",
];

/// A document of a tab.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) document: Document,
    /// The document that its frame is in; none is the main one.
    pub(super) parent: Option<usize>,
    /// The frame's element in there, by the number of that document.
    pub(super) owner: Option<u64>,
}

/// The documents of a tab, the main one first, parents before what is in them.
#[derive(Debug)]
pub(super) struct View {
    pub(super) tab: Tab,
    pub(super) nodes: Vec<Node>,
    /// No frame is missing: there were not too many, and each answered.
    pub(super) is_whole: bool,
    /// Only its user can change the page: it never had a script, and has no listeners apart from event handler attributes.
    pub(super) is_still: bool,
}

/// A frame, as the browser lists it.
struct Listed {
    place: Place,
    parent: String,
}

/// The frames of one process, in the order of the tree.
fn list(session: &str, tree: &Value, found: &mut Vec<Listed>) {
    let text = |field: &str| tree["frame"][field].as_str().unwrap_or_default().to_owned();
    let place = Place { session: session.to_owned(), frame: text("id"), loader: text("loaderId") };
    found.push(Listed { place, parent: text("parentId") });
    for child in tree["childFrames"].as_array().into_iter().flatten() {
        list(session, child, found);
    }
}

impl View {
    /// Looks at the current tab.
    ///
    /// # Errors
    /// There is none, or its page does not answer.
    pub(super) async fn of(browser: &mut Browser) -> Result<Self, Problem> {
        let tab = browser.tab()?;
        let (mut frames, mut is_whole) = (Vec::new(), true);
        list(&tab.session, &main_tree(browser, &tab).await?["frameTree"], &mut frames);
        for Part { session, .. } in &tab.parts {
            match browser.of_page(session, "Page.getFrameTree", json!({})).await {
                Ok(tree) => list(session, &tree["frameTree"], &mut frames),
                // A frame may go at any time.
                Err(_) => is_whole = false,
            }
        }
        let count = frames.len();
        let mut view = Self { tab, nodes: Vec::new(), is_whole, is_still: false };
        let mut ids: Vec<String> = Vec::new();
        // Those of other processes come after those that they are in.
        for Listed { place, parent } in frames.into_iter().take(MOST_FRAMES) {
            let id = place.frame.clone();
            let is_main = id == view.tab.target;
            let within = ids.iter().position(|it| *it == parent);
            if !is_main && within.is_none() {
                continue;
            }
            let document = match browser.documents.open(&browser.client, place).await {
                Ok(document) => document,
                Err(problem) if is_main => return Err(problem),
                Err(_) => continue,
            };
            let parent = within.filter(|_| !is_main);
            let owner = match parent.and_then(|it| view.nodes.get(it)) {
                Some(parent) => owner(browser, &parent.document, &id).await,
                None => None,
            };
            if parent.is_none() || owner.is_some() {
                view.nodes.push(Node { document, parent, owner });
                ids.push(id);
            }
        }
        view.is_whole &= view.nodes.len() == count;
        if view.nodes.is_empty() { Err(Problem::Gone) } else { Ok(view) }
    }

    /// The main document.
    pub(super) fn main(&self) -> &Document {
        &self.nodes[0].document
    }

    /// The document with this key, as a place in the list.
    pub(super) fn with_key(&self, key: u64) -> Option<usize> {
        self.nodes.iter().position(|it| it.document.key == key)
    }

    /// The documents whose frames are in this one: the numbers of the frames' elements, and places in the list.
    pub(super) fn within(&self, parent: usize) -> impl Iterator<Item = (u64, usize)> {
        let child = move |(at, node): (usize, &Node)| Some((node.owner.filter(|_| node.parent == Some(parent))?, at));
        self.nodes.iter().enumerate().filter_map(child)
    }
}

/// The frames of a tab's own process. The document that the tab is known to show gets the script at the same time.
async fn main_tree(browser: &mut Browser, tab: &Tab) -> Result<Value, Problem> {
    let Browser { client, documents, .. } = browser;
    let tree = of_page(client, &tab.session, "Page.getFrameTree", json!({}));
    if tab.loader.is_empty() {
        return tree.await;
    }
    let place = Place { session: tab.session.clone(), frame: tab.target.clone(), loader: tab.loader.clone() };
    // Asked for before the tree: if the tree has the same document, the script is in it. If not, another one is looked at.
    match join(documents.open(client, place), tree).await {
        (Err(problem), Ok(tree)) if tree.pointer("/frameTree/frame/loaderId") == Some(&json!(tab.loader)) => {
            Err(problem)
        }
        (_, tree) => tree,
    }
}

/// The number of a frame's element in the document that it is in.
async fn owner(browser: &Browser, parent: &Document, frame: &str) -> Option<u64> {
    let client = &browser.client;
    let found = parent.ask(client, "DOM.getFrameOwner", json!({"frameId": frame}), HELP).await.ok()?;
    let object = resolve(client, parent, found["backendNodeId"].as_i64()?).await?;
    let number = parent.with_objects(client, "number", &[object]).await.ok()?;
    number["value"].as_u64().filter(|it| *it > 0)
}

/// An element as an object in the world of the script.
async fn resolve(client: &Client, document: &Document, node: i64) -> Option<String> {
    let params = json!({"backendNodeId": node, "executionContextId": document.context, "objectGroup": GROUP});
    let resolved = document.ask(client, "DOM.resolveNode", params, HELP).await.ok()?;
    resolved.pointer("/object/objectId").and_then(Value::as_str).map(str::to_owned)
}

/// Tells the script which elements have listeners, which it can't see from its own world. As far as this goes within a second.
pub(super) async fn tell_listeners(browser: &mut Browser, document: &Document) {
    let Browser { client, documents, .. } = browser;
    let heard = documents.heard.entry(document.key).or_default();
    let _ = tokio::time::timeout(HELP, tell(client, document, heard)).await;
    // Nothing waits for this.
    client.tell(Some(&document.place.session), "Runtime.releaseObjectGroup", &json!({"objectGroup": GROUP}));
}

async fn tell(client: &Client, document: &Document, heard: &mut Heard) -> Option<()> {
    if heard.whole.is_none() {
        heard.whole = whole(client, document).await;
    }
    let params = json!({"objectId": heard.whole.as_ref()?, "depth": -1, "pierce": true});
    let found = document.ask(client, "DOMDebugger.getEventListeners", params, HELP).await;
    let found = found.inspect_err(|_| heard.whole = None).ok()?;
    let mut new = Vec::new();
    for listener in found["listeners"].as_array()? {
        let is_use = listener["type"].as_str().is_some_and(|it| USED_BY.contains(&it));
        if let Some(node) = listener["backendNodeId"].as_i64().filter(|_| is_use && new.len() < MOST_HEARD)
            && heard.nodes.insert(node)
        {
            new.push(node);
        }
    }
    if new.is_empty() {
        return None;
    }
    let objects = join_all(new.into_iter().map(|it| resolve(client, document, it))).await;
    let objects: Vec<String> = objects.into_iter().flatten().collect();
    document.with_objects(client, "heard", &objects).await.ok()?;
    Some(())
}

/// The page's own object of a document: that of the isolated world would be given wrappers of the page's world.
async fn whole(client: &Client, document: &Document) -> Option<String> {
    let whole = document.ask(client, "Runtime.evaluate", json!({"expression": "document"}), HELP).await.ok()?;
    whole.pointer("/result/objectId").and_then(Value::as_str).map(str::to_owned)
}

/// Shows the script the closed shadow roots of hosts that it found. Returns whether there were any.
pub(super) async fn show_closed_roots(browser: &Browser, document: &Document, hosts: u64) -> bool {
    let client = &browser.client;
    let mut roots = Vec::new();
    for i in 0..hosts.min(MOST_HOSTS) {
        let Ok(Some(host)) = document.host(client, i).await else { continue };
        let params = json!({"objectId": host, "depth": 1, "pierce": true});
        let Ok(described) = document.ask(client, "DOM.describeNode", params, HELP).await else { continue };
        for root in described.pointer("/node/shadowRoots").and_then(Value::as_array).into_iter().flatten() {
            if root["shadowRootType"] == "closed"
                && let Some(node) = root["backendNodeId"].as_i64()
            {
                roots.extend(resolve(client, document, node).await);
            }
        }
    }
    !roots.is_empty() && document.with_objects(client, "adopt", &roots).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_knows_the_handlers_of_all_events_that_elements_are_used_by() {
        let handlers =
            super::super::page::SCRIPT.split_once("const HANDLERS = [").unwrap().1.split_once(']').unwrap().0;
        let mut handlers: Vec<&str> = handlers.split('\'').skip(1).step_by(2).collect();
        let mut used_by = USED_BY.map(|event| format!("on{event}"));
        handlers.sort_unstable();
        used_by.sort_unstable();
        assert_eq!(handlers, used_by);
    }
}
