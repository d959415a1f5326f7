//! The documents of a tab: the main document and those of its frames, each with the script, and how they are
//! nested.

use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};

use super::documents::{Document, DocumentId, GROUP, KnownListeners};
use super::instance::{Browser, call_page};
use super::problem::Problem;
use super::tabs::{OutOfProcessFrame, Tab};

/// The maximum number of included frames of one page.
pub(super) const MOST_FRAMES: usize = 32;

/// The maximum number of elements with listeners that are reported to the script at a time.
const MOST_HEARD: usize = 500;

/// The maximum number of closed shadow roots that are revealed to the script at a time.
const MOST_HOSTS: u64 = 20;

/// The time limit for optional steps.
const HELP: Duration = Duration::from_secs(1);

/// Events whose listeners make an element usable.
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

/// A document of a tab, and its position in the frame tree.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) document: Document,
    /// The index of the document that contains this document's frame. `None` for the main document.
    pub(super) parent: Option<usize>,
    /// The number of the frame's element in the parent document.
    pub(super) owner: Option<u64>,
}

impl Node {
    /// Calls a function of the script. Returns `None` if a frame does not answer, because frames may disappear at any
    /// time.
    ///
    /// # Errors
    /// The main document does not answer, or its script reports an error.
    pub(super) async fn call(&self, name: &str, arguments: Value) -> Result<Option<Value>, Problem> {
        match self.document.call(name, arguments).await {
            Err(_) if self.parent.is_some() => Ok(None),
            answer => answer.map(Some),
        }
    }
}

/// The documents of a tab. The main document comes first, and parents come before children.
#[derive(Debug)]
pub(super) struct View {
    pub(super) tab: Tab,
    pub(super) nodes: Vec<Node>,
    /// Whether no frame is missing: the frame limit was not exceeded, and every frame answered.
    pub(super) is_whole: bool,
    /// Whether only user input can change the page: it never had a script, and its only listeners are event
    /// handler attributes.
    pub(super) is_still: bool,
}

/// A frame as the browser lists it.
struct FrameEntry {
    place: DocumentId,
    parent: String,
}

/// Collects the frames of one process in tree order.
fn list(session: &str, tree: &Value, found: &mut Vec<FrameEntry>) {
    let text = |field: &str| tree["frame"][field].as_str().unwrap_or_default().to_owned();
    let place = DocumentId { session: session.to_owned(), frame: text("id"), loader: text("loaderId") };
    found.push(FrameEntry { place, parent: text("parentId") });
    for child in tree["childFrames"].as_array().into_iter().flatten() {
        list(session, child, found);
    }
}

impl View {
    /// Captures the documents of the current tab.
    ///
    /// # Errors
    /// No tab is open, or its page does not answer.
    pub(super) async fn capture(browser: &mut Browser) -> Result<Self, Problem> {
        let tab = browser.tab()?;
        let (mut frames, mut is_whole) = (Vec::new(), true);
        list(&tab.session, &main_tree(browser, &tab).await?["frameTree"], &mut frames);
        for OutOfProcessFrame { session, .. } in &tab.parts {
            match browser.call_page(session, "Page.getFrameTree", json!({})).await {
                Ok(tree) => list(session, &tree["frameTree"], &mut frames),
                // The frame may disappear at any time.
                Err(_) => is_whole = false,
            }
        }
        let count = frames.len();
        let mut view = Self { tab, nodes: Vec::new(), is_whole, is_still: false };
        let mut ids: Vec<String> = Vec::new();
        // Out-of-process frames come after the frames that contain them.
        for FrameEntry { place, parent } in frames.into_iter().take(MOST_FRAMES) {
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
                Some(parent) => owner(&parent.document, &id).await,
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

    /// Returns the main document.
    pub(super) fn main(&self) -> &Document {
        &self.nodes[0].document
    }

    /// Returns the index of the document with this key.
    pub(super) fn with_key(&self, key: u64) -> Option<usize> {
        self.nodes.iter().position(|it| it.document.key == key)
    }

    /// Returns the documents of the frames in this document: the number of each frame's element, and the index of
    /// the frame's document.
    pub(super) fn within(&self, parent: usize) -> impl Iterator<Item = (u64, usize)> {
        let child = move |(at, node): (usize, &Node)| Some((node.owner.filter(|_| node.parent == Some(parent))?, at));
        self.nodes.iter().enumerate().filter_map(child)
    }
}

/// Returns the frame tree of a tab's main process. Starts the script in the last known document at the same time.
async fn main_tree(browser: &mut Browser, tab: &Tab) -> Result<Value, Problem> {
    let Browser { client, documents, .. } = browser;
    let tree = call_page(client, &tab.session, "Page.getFrameTree", json!({}));
    if tab.loader.is_empty() {
        return tree.await;
    }
    let place = DocumentId { session: tab.session.clone(), frame: tab.target.clone(), loader: tab.loader.clone() };
    // The document was opened before the tree arrived. If the tree lists the same document, its script already
    // runs; otherwise, the new document is opened later.
    match join(documents.open(client, place), tree).await {
        (Err(problem), Ok(tree)) if tree.pointer("/frameTree/frame/loaderId") == Some(&json!(tab.loader)) => {
            Err(problem)
        }
        (_, tree) => tree,
    }
}

/// Returns the number of a frame's element in the document that contains it.
async fn owner(parent: &Document, frame: &str) -> Option<u64> {
    let found = parent.ask("DOM.getFrameOwner", json!({"frameId": frame}), HELP).await.ok()?;
    let object = resolve(parent, found["backendNodeId"].as_i64()?).await?;
    let number = parent.with_objects("number", &[object]).await.ok()?;
    number["value"].as_u64().filter(|it| *it > 0)
}

/// Resolves an element to an object in the script's world.
async fn resolve(document: &Document, node: i64) -> Option<String> {
    let params = json!({"backendNodeId": node, "executionContextId": document.context, "objectGroup": GROUP});
    let resolved = document.ask("DOM.resolveNode", params, HELP).await.ok()?;
    resolved.pointer("/object/objectId").and_then(Value::as_str).map(str::to_owned)
}

/// Tells the script which elements have listeners, because it can't see them from its isolated world. Gives up
/// after a second.
pub(super) async fn tell_listeners(browser: &mut Browser, document: &Document) {
    let heard = browser.documents.heard.entry(document.key).or_default();
    let _ = tokio::time::timeout(HELP, tell(document, heard)).await;
    // The answer is ignored.
    browser.client.send(Some(&document.id.session), "Runtime.releaseObjectGroup", &json!({"objectGroup": GROUP}));
}

async fn tell(document: &Document, heard: &mut KnownListeners) -> Option<()> {
    if heard.whole.is_none() {
        heard.whole = document_object(document).await;
    }
    let params = json!({"objectId": heard.whole.as_ref()?, "depth": -1, "pierce": true});
    let found = document.ask("DOMDebugger.getEventListeners", params, HELP).await;
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
    let objects = join_all(new.into_iter().map(|it| resolve(document, it))).await;
    let objects: Vec<String> = objects.into_iter().flatten().collect();
    document.with_objects("heard", &objects).await.ok()?;
    Some(())
}

/// Returns the document object in the page's world. In the isolated world, it would be a wrapper.
async fn document_object(document: &Document) -> Option<String> {
    let whole = document.ask("Runtime.evaluate", json!({"expression": "document"}), HELP).await.ok()?;
    whole.pointer("/result/objectId").and_then(Value::as_str).map(str::to_owned)
}

/// Reveals the closed shadow roots of the listed hosts to the script. Returns whether there were any.
pub(super) async fn show_closed_roots(document: &Document, hosts: u64) -> bool {
    let mut roots = Vec::new();
    for i in 0..hosts.min(MOST_HOSTS) {
        let Ok(Some(host)) = document.host(i).await else { continue };
        let params = json!({"objectId": host, "depth": 1, "pierce": true});
        let Ok(described) = document.ask("DOM.describeNode", params, HELP).await else { continue };
        for root in described.pointer("/node/shadowRoots").and_then(Value::as_array).into_iter().flatten() {
            if root["shadowRootType"] == "closed"
                && let Some(node) = root["backendNodeId"].as_i64()
            {
                roots.extend(resolve(document, node).await);
            }
        }
    }
    !roots.is_empty() && document.with_objects("adopt", &roots).await.is_ok()
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
