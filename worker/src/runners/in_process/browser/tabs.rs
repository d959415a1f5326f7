//! The tabs of a browser, as its events tell them: which there are, what they load, and what happened meanwhile. Pure: an event
//! comes in, orders for the browser come out.

use std::collections::BTreeMap;

use openskill_cdp::message::Event;
use serde_json::{Value, json};

use super::flags::PAGE;
use super::news::{Happening, News};
use super::page::{WATCH, WORLD};

/// A request to the browser that nobody waits for.
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

/// Bounds on what pages may cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) tabs: usize,
    /// Of one file.
    pub(super) download_bytes: u64,
    /// Downloads of a session.
    pub(super) downloads: usize,
}

/// A frame that runs in a process of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) session: String,
    /// The id of its frame too.
    pub(super) target: String,
    /// The session of the page or frame that it is in.
    within: String,
}

/// Documents of a tab that are remembered while it loads.
const MOST_LOADERS: usize = 32;

/// A tab.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tab {
    /// Small, and never used again.
    pub(super) id: u64,
    /// The id of its main frame too.
    pub(super) target: String,
    pub(super) session: String,
    pub(super) url: String,
    /// Names the document of its main frame.
    pub(super) loader: String,
    /// Its documents since the browser was last asked to load one, the oldest first: at most [`MOST_LOADERS`].
    pub(super) loaders: Vec<String>,
    /// Whether that document is complete, but for what it loads later.
    pub(super) is_parsed: bool,
    /// Whether it loads or is about to.
    pub(super) is_busy: bool,
    pub(super) has_crashed: bool,
    pub(super) parts: Vec<Part>,
    /// What is dragged, since the browser asked.
    pub(super) drag: Option<Value>,
}

/// A download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Download {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) state: Transfer,
    /// Whether a caller was told of its end.
    pub(super) is_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    Running,
    Done,
    Failed,
    TooLarge,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Tabs {
    bounds: Bounds,
    all: Vec<Tab>,
    next: u64,
    current: u64,
    /// Whether one more tab than allowed may come, in place of one that is about to be closed.
    replaces: bool,
    /// By their ids.
    pub(super) downloads: BTreeMap<String, Download>,
    pub(super) news: News,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The size of each page, whatever window the browser gives it.
fn size() -> Value {
    let (width, height) = PAGE;
    json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

/// The script that each new document of a tab runs before its own.
fn watch() -> Value {
    json!({"source": WATCH, "worldName": WORLD})
}

/// Which targets the browser attaches: all of a page's, as one that is left out would wait for ever to be let run.
pub(super) fn attach_to() -> Value {
    let filter = json!([{"type": "browser", "exclude": true}, {"type": "tab", "exclude": true}, {}]);
    json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": filter})
}

impl Tabs {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (downloads, news) = (BTreeMap::new(), News::default());
        Self { bounds, all: Vec::new(), next: 0, current: 0, replaces: false, downloads, news }
    }

    /// In the order in which they were opened.
    pub(super) fn all(&self) -> &[Tab] {
        &self.all
    }

    /// The tab that calls are about.
    pub(super) fn current(&self) -> Option<&Tab> {
        self.get(self.current)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Tab> {
        self.all.iter().find(|it| it.id == id)
    }

    pub(super) fn of_target(&self, target: &str) -> Option<&Tab> {
        self.all.iter().find(|it| it.target == target)
    }

    /// Makes a tab the current one. Returns whether it exists.
    pub(super) fn switch(&mut self, id: u64) -> bool {
        let exists = self.get(id).is_some();
        if exists {
            self.current = id;
        }
        exists
    }

    /// Says whether a tab is about to be opened in place of another one.
    pub(super) fn replace(&mut self, replaces: bool) {
        self.replaces = replaces;
    }

    /// Forgets what was dragged.
    pub(super) fn take_drag(&mut self, id: u64) -> Option<Value> {
        self.all.iter_mut().find(|it| it.id == id)?.drag.take()
    }

    /// Says that a tab is about to load: the browser was asked to.
    pub(super) fn expect_load(&mut self, id: u64) {
        if let Some(tab) = self.all.iter_mut().find(|it| it.id == id) {
            (tab.is_busy, tab.is_parsed) = (true, false);
            tab.loaders.clear();
        }
    }

    fn with_session(&mut self, session: &str) -> Option<&mut Tab> {
        self.all.iter_mut().find(|it| it.session == session)
    }

    /// What an event means. Those that mean nothing here are passed over.
    pub(super) fn on(&mut self, event: &Event) -> Vec<Order> {
        let params = &event.params;
        let Some(session) = event.session.as_deref() else {
            return self.on_browser(&event.method, params);
        };
        match event.method.as_str() {
            "Target.attachedToTarget" => return self.attached(Some(session), params),
            "Target.detachedFromTarget" => self.detached(text(params, "sessionId")),
            "Page.javascriptDialogOpening" => return vec![self.dialog(session, params)],
            "Page.fileChooserOpened" => self.news.add(Happening::FileChooser),
            "Inspector.targetCrashed" => self.crashed(|it| it.session == session),
            method => self.on_page(session, method, params),
        }
        Vec::new()
    }

    fn on_browser(&mut self, method: &str, params: &Value) -> Vec<Order> {
        match method {
            "Target.attachedToTarget" => return self.attached(None, params),
            "Target.detachedFromTarget" => self.detached(text(params, "sessionId")),
            "Target.targetCrashed" => self.crashed(|it| it.target == text(params, "targetId")),
            "Target.targetInfoChanged" => {
                let info = params.get("targetInfo").unwrap_or(&Value::Null);
                if let Some(tab) = self.all.iter_mut().find(|it| it.target == text(info, "targetId")) {
                    text(info, "url").clone_into(&mut tab.url);
                }
            }
            "Browser.downloadWillBegin" => return self.download_begins(params),
            "Browser.downloadProgress" => return self.download_goes_on(params),
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
                // A change of the fragment loads nothing.
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

    fn attached(&mut self, within: Option<&str>, params: &Value) -> Vec<Order> {
        let info = params.get("targetInfo").unwrap_or(&Value::Null);
        let (session, target) = (text(params, "sessionId").to_owned(), text(info, "targetId").to_owned());
        let run = Order::to(&session, "Runtime.runIfWaitingForDebugger", json!({}));
        let attach = Order::to(&session, "Target.setAutoAttach", attach_to());
        // The browser's own parts, such as the list below its address bar, are pages too.
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
                self.opened(session, target, text(info, "url").to_owned());
                // Pages open tabs in front of theirs; callers say themselves which one they want.
                let front = self.current().filter(|it| it.id + 1 != self.next).map(|it| it.target.clone());
                let front = front.map(|it| Order::to_browser("Target.activateTarget", json!({"targetId": it})));
                orders.into_iter().chain(front).collect()
            }
            ("iframe", Some(within)) => {
                let holds = |it: &&mut Tab| it.session == within || it.parts.iter().any(|part| part.session == within);
                if let Some(tab) = self.all.iter_mut().find(holds) {
                    tab.parts.push(Part { session, target, within: within.to_owned() });
                }
                vec![attach, run]
            }
            // Workers, and the browser's own parts.
            _ => vec![run],
        }
    }

    fn opened(&mut self, session: String, target: String, url: String) {
        let id = self.next;
        self.next += 1;
        if self.all.is_empty() {
            self.current = id;
        }
        self.news.add(Happening::Opened(id, url.clone()));
        let (loader, loaders, parts) = (String::new(), Vec::new(), Vec::new());
        let (is_parsed, is_busy, has_crashed, drag) = (false, false, false, None);
        self.all.push(Tab { id, target, session, url, loader, loaders, is_parsed, is_busy, has_crashed, parts, drag });
    }

    fn detached(&mut self, session: &str) {
        for tab in &mut self.all {
            tab.parts.retain(|it| it.session != session && it.within != session);
        }
        let Some(at) = self.all.iter().position(|it| it.session == session) else { return };
        let gone = self.all.remove(at);
        self.news.add(Happening::Closed(gone.id));
        if self.current == gone.id {
            // The neighbour, as people are used to it.
            let next = self.all.get(at.saturating_sub(1)).or(self.all.first());
            self.current = next.map_or(gone.id, |it| it.id);
        }
    }

    fn crashed(&mut self, which: impl Fn(&Tab) -> bool) {
        for tab in self.all.iter_mut().filter(|it| which(it) && !it.has_crashed) {
            (tab.has_crashed, tab.is_busy) = (true, false);
            tab.parts.clear();
            self.news.add(Happening::Crashed(tab.id));
        }
    }

    /// An alert has one answer, leaving a page is allowed, and nothing else is agreed to.
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

    fn download_begins(&mut self, params: &Value) -> Vec<Order> {
        let (guid, name) = (text(params, "guid").to_owned(), text(params, "suggestedFilename").to_owned());
        if self.downloads.len() >= self.bounds.downloads {
            self.news.add(Happening::NotDownloaded(name));
            return vec![Order::to_browser("Browser.cancelDownload", json!({"guid": guid}))];
        }
        let download = Download { name, bytes: 0, state: Transfer::Running, is_told: false };
        self.downloads.insert(guid, download);
        Vec::new()
    }

    fn download_goes_on(&mut self, params: &Value) -> Vec<Order> {
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
