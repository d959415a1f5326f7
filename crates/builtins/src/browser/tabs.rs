//! Tracks the tabs of a browser by its events: which exist, what they load, and what happened. Does no I/O: takes
//! events and returns commands for the browser.

use std::collections::BTreeMap;

use crate::browser::cdp::message::Event;
use serde_json::{Value, json};

use super::flags::PAGE;
use super::news::{Happening, News};
use super::page::{WATCH, WORLD};

/// A command for the browser, whose answer is ignored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Order {
    pub(super) session: Option<String>,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl Order {
    fn to(session: &str, method: &'static str, params: Value) -> Self {
        Self { session: Some(session.to_owned()), method, params }
    }

    fn to_browser(method: &'static str, params: Value) -> Self {
        Self { session: None, method, params }
    }
}

/// Limits on what pages may do.
#[derive(Debug, Clone, Copy)]
pub(super) struct TabLimits {
    pub(super) tabs: usize,
    /// The maximum size of a download, in bytes.
    pub(super) download_bytes: u64,
    /// The maximum number of downloads in a session.
    pub(super) downloads: usize,
}

/// A frame that runs in a separate process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutOfProcessFrame {
    pub(super) session: String,
    /// Also the frame id.
    pub(super) target: String,
    /// The session of the page or frame that contains this frame.
    within: String,
}

/// The maximum number of documents remembered per tab while it loads.
const MOST_LOADERS: usize = 32;

/// The state of a tab.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Tab {
    /// A small number for callers, never reused.
    pub(super) id: u64,
    /// Also the id of the main frame.
    pub(super) target: String,
    pub(super) session: String,
    pub(super) url: String,
    /// Identifies the current document of the main frame.
    pub(super) loader: String,
    /// The documents since the last request to load one, oldest first, at most [`MOST_LOADERS`].
    pub(super) loaders: Vec<String>,
    /// Whether the current document is fully parsed. Its subresources may still be loading.
    pub(super) is_parsed: bool,
    /// Whether the tab is loading or about to load.
    pub(super) is_busy: bool,
    pub(super) has_crashed: bool,
    pub(super) parts: Vec<OutOfProcessFrame>,
    /// The data of an intercepted drag.
    pub(super) drag: Option<Value>,
}

/// The state of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Download {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) state: Transfer,
    /// Whether the caller was told about its outcome.
    pub(super) is_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    Running,
    Done,
    Failed,
    TooLarge,
}

/// The tabs of a browser, with its downloads and events.
#[derive(Debug)]
pub(super) struct Tabs {
    bounds: TabLimits,
    /// The tabs in the order in which they were opened.
    pub(super) all: Vec<Tab>,
    next: u64,
    current: u64,
    /// Whether one additional tab is allowed, because it replaces one that is about to be closed.
    pub(super) replaces: bool,
    /// Downloads by id.
    pub(super) downloads: BTreeMap<String, Download>,
    pub(super) news: News,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the size of each page, which does not depend on the size of the browser window.
fn size() -> Value {
    let (width, height) = PAGE;
    json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

/// Returns the script that runs in each new document before the document's own scripts.
fn watch() -> Value {
    json!({"source": WATCH, "worldName": WORLD})
}

/// Returns which targets the browser attaches to. These are all targets of a page, because one that is left out
/// would never be resumed.
pub(super) fn attach_to() -> Value {
    let filter = json!([{"type": "browser", "exclude": true}, {"type": "tab", "exclude": true}, {}]);
    json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": filter})
}

impl Tabs {
    pub(super) fn new(bounds: TabLimits) -> Self {
        let (downloads, news) = (BTreeMap::new(), News::default());
        Self { bounds, all: Vec::new(), next: 0, current: 0, replaces: false, downloads, news }
    }

    /// Returns the caller's current tab.
    pub(super) fn current(&self) -> Option<&Tab> {
        self.get(self.current)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Tab> {
        self.all.iter().find(|it| it.id == id)
    }

    pub(super) fn with_target(&self, target: &str) -> Option<&Tab> {
        self.all.iter().find(|it| it.target == target)
    }

    /// Makes a tab the current one. Returns `false` if it does not exist.
    pub(super) fn switch(&mut self, id: u64) -> bool {
        let exists = self.get(id).is_some();
        if exists {
            self.current = id;
        }
        exists
    }

    /// Removes and returns the data of an intercepted drag.
    pub(super) fn take_drag(&mut self, id: u64) -> Option<Value> {
        self.all.iter_mut().find(|it| it.id == id)?.drag.take()
    }

    /// Records that the browser was told to load a document in a tab.
    pub(super) fn expect_load(&mut self, id: u64) {
        if let Some(tab) = self.all.iter_mut().find(|it| it.id == id) {
            (tab.is_busy, tab.is_parsed) = (true, false);
            tab.loaders.clear();
        }
    }

    fn with_session(&mut self, session: &str) -> Option<&mut Tab> {
        self.all.iter_mut().find(|it| it.session == session)
    }

    /// Handles an event and returns the resulting commands. Ignores irrelevant events.
    pub(super) fn on(&mut self, event: &Event) -> Vec<Order> {
        let params = &event.params;
        match (event.method.as_str(), event.session.as_deref()) {
            ("Target.attachedToTarget", within) => return self.on_attached(within, params),
            ("Target.detachedFromTarget", _) => self.on_detached(text(params, "sessionId")),
            ("Page.javascriptDialogOpening", Some(session)) => return vec![self.dialog(session, params)],
            ("Page.fileChooserOpened", Some(_)) => self.news.add(Happening::FileChooser),
            ("Inspector.targetCrashed", Some(session)) => self.mark_crashed(|it| it.session == session),
            (method, Some(session)) => self.on_page(session, method, params),
            ("Target.targetCrashed", None) => self.mark_crashed(|it| it.target == text(params, "targetId")),
            ("Target.targetInfoChanged", None) => {
                let info = params.get("targetInfo").unwrap_or(&Value::Null);
                if let Some(tab) = self.all.iter_mut().find(|it| it.target == text(info, "targetId")) {
                    text(info, "url").clone_into(&mut tab.url);
                }
            }
            ("Browser.downloadWillBegin", None) => return self.on_download_begin(params),
            ("Browser.downloadProgress", None) => return self.on_download_progress(params),
            _ => {}
        }
        Vec::new()
    }

    fn on_page(&mut self, session: &str, method: &str, params: &Value) {
        let Some(tab) = self.with_session(session) else { return };
        let frame = params.get("frame").unwrap_or(&Value::Null);
        let of_main = text(params, "frameId") == tab.target || text(frame, "id") == tab.target;
        match method {
            "Input.dragIntercepted" => tab.drag = params.get("data").cloned(),
            "Page.frameStartedNavigating" if of_main => {
                // Changing only the fragment loads nothing.
                tab.is_busy |= !text(params, "navigationType").to_ascii_lowercase().contains("samedocument");
            }
            "Page.frameRequestedNavigation" | "Page.frameStartedLoading" if of_main => tab.is_busy = true,
            "Page.frameStoppedLoading" if of_main => (tab.is_busy, tab.is_parsed) = (false, true),
            "Page.navigatedWithinDocument" if of_main => {
                text(params, "url").clone_into(&mut tab.url);
            }
            "Page.frameNavigated" if of_main => {
                text(frame, "loaderId").clone_into(&mut tab.loader);
                if tab.loaders.len() == MOST_LOADERS {
                    tab.loaders.remove(0);
                }
                tab.loaders.push(tab.loader.clone());
                text(frame, "url").clone_into(&mut tab.url);
                (tab.is_parsed, tab.has_crashed) = (false, false);
            }
            "Page.lifecycleEvent" if of_main && text(params, "loaderId") == tab.loader => {
                tab.is_parsed |= matches!(text(params, "name"), "DOMContentLoaded" | "load");
            }
            _ => {}
        }
    }

    fn on_attached(&mut self, within: Option<&str>, params: &Value) -> Vec<Order> {
        let info = params.get("targetInfo").unwrap_or(&Value::Null);
        let (session, target) = (text(params, "sessionId").to_owned(), text(info, "targetId").to_owned());
        let run = Order::to(&session, "Runtime.runIfWaitingForDebugger", json!({}));
        let attach = Order::to(&session, "Target.setAutoAttach", attach_to());
        // Internal parts of the browser, such as the dropdown of its address bar, are also pages.
        let is_of_web = !text(info, "url").starts_with("chrome");
        match (text(info, "type"), within) {
            ("page", _) if is_of_web => {
                if self.all.len() >= self.bounds.tabs + usize::from(self.replaces) {
                    self.news.add(Happening::NotOpened(text(info, "url").to_owned()));
                    return vec![run, Order::to_browser("Target.closeTarget", json!({"targetId": target}))];
                }
                let orders = [
                    Order::to(&session, "Page.enable", json!({})),
                    Order::to(&session, "Page.setLifecycleEventsEnabled", json!({"enabled": true})),
                    Order::to(&session, "Page.addScriptToEvaluateOnNewDocument", watch()),
                    Order::to(&session, "Inspector.enable", json!({})),
                    attach,
                    Order::to(&session, "Emulation.setDeviceMetricsOverride", size()),
                    Order::to(&session, "Emulation.setFocusEmulationEnabled", json!({"enabled": true})),
                    Order::to(&session, "Page.setInterceptFileChooserDialog", json!({"enabled": true})),
                    run,
                ];
                self.add_tab(session, target, text(info, "url").to_owned());
                // The browser puts tabs opened by a page in front, but the caller chooses the current tab.
                let front = self.current().filter(|it| it.id + 1 != self.next).map(|it| it.target.clone());
                let front = front.map(|it| Order::to_browser("Target.activateTarget", json!({"targetId": it})));
                orders.into_iter().chain(front).collect()
            }
            ("iframe", Some(within)) => {
                let holds = |it: &&mut Tab| it.session == within || it.parts.iter().any(|part| part.session == within);
                if let Some(tab) = self.all.iter_mut().find(holds) {
                    tab.parts.push(OutOfProcessFrame { session, target, within: within.to_owned() });
                }
                vec![attach, run]
            }
            // Workers and internal parts of the browser.
            _ => vec![run],
        }
    }

    fn add_tab(&mut self, session: String, target: String, url: String) {
        let id = self.next;
        self.next += 1;
        if self.all.is_empty() {
            self.current = id;
        }
        self.news.add(Happening::Opened(id, url.clone()));
        self.all.push(Tab { id, target, session, url, ..Tab::default() });
    }

    fn on_detached(&mut self, session: &str) {
        for tab in &mut self.all {
            tab.parts.retain(|it| it.session != session && it.within != session);
        }
        let Some(at) = self.all.iter().position(|it| it.session == session) else { return };
        let gone = self.all.remove(at);
        self.news.add(Happening::Closed(gone.id));
        if self.current == gone.id {
            // Select the neighbouring tab, as browsers usually do.
            let next = self.all.get(at.saturating_sub(1)).or(self.all.first());
            self.current = next.map_or(gone.id, |it| it.id);
        }
    }

    fn mark_crashed(&mut self, which: impl Fn(&Tab) -> bool) {
        for tab in self.all.iter_mut().filter(|it| which(it) && !it.has_crashed) {
            (tab.has_crashed, tab.is_busy) = (true, false);
            tab.parts.clear();
            self.news.add(Happening::Crashed(tab.id));
        }
    }

    /// Accepts alerts and requests to leave a page. Dismisses all other dialogs.
    fn dialog(&mut self, session: &str, params: &Value) -> Order {
        let kind = text(params, "type");
        let accept = matches!(kind, "alert" | "beforeunload");
        self.news.add(Happening::Dialog {
            kind: kind.to_owned(),
            message: text(params, "message").to_owned(),
            accepted: accept,
        });
        Order::to(session, "Page.handleJavaScriptDialog", json!({"accept": accept}))
    }

    fn on_download_begin(&mut self, params: &Value) -> Vec<Order> {
        let (guid, name) = (text(params, "guid").to_owned(), text(params, "suggestedFilename").to_owned());
        if self.downloads.len() >= self.bounds.downloads {
            self.news.add(Happening::NotDownloaded(name));
            return vec![Order::to_browser("Browser.cancelDownload", json!({"guid": guid}))];
        }
        let download = Download { name, bytes: 0, state: Transfer::Running, is_told: false };
        self.downloads.insert(guid, download);
        Vec::new()
    }

    fn on_download_progress(&mut self, params: &Value) -> Vec<Order> {
        let (guid, most) = (text(params, "guid"), self.bounds.download_bytes);
        let Some(download) = self.downloads.get_mut(guid) else { return Vec::new() };
        let number = |field| params.get(field).and_then(Value::as_f64).unwrap_or(0.0) as u64;
        download.bytes = number("receivedBytes");
        if download.state != Transfer::Running {
            return Vec::new();
        }
        match text(params, "state") {
            "completed" if download.bytes > most => download.state = Transfer::TooLarge,
            "completed" => download.state = Transfer::Done,
            "canceled" => download.state = Transfer::Failed,
            _ if download.bytes.max(number("totalBytes")) > most => {
                download.state = Transfer::TooLarge;
                return vec![Order::to_browser("Browser.cancelDownload", json!({"guid": guid}))];
            }
            _ => {}
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
