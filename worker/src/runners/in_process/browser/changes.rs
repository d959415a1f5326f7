//! What an action changed: a page is marked before, settles, and is compared afterwards.

use std::time::{Duration, Instant};

use openskill_cdp::client::CallError;
use serde_json::{Map, Value, json};

use super::instance::Browser;
use super::listing::{elements, line};
use super::news::Happening;
use super::problem::Problem;
use super::view::View;
use super::wording;

/// How long a page that loads is waited for.
const LOADS: Duration = Duration::from_secs(10);

/// How long a page is to be quiet, and how long that is waited for.
const QUIET_MS: u64 = 40;
const MOST: Duration = Duration::from_secs(1);

/// How often a page that goes on loading others is waited for.
const MOST_LOADS: usize = 4;

/// Documents of one page that are compared.
const MOST_DOCUMENTS: usize = 6;

/// New elements that are listed. There is a tool for all of them.
const MOST_NEW: usize = 30;

/// The documents that the tabs of a browser showed when a call began.
#[derive(Debug)]
pub(super) struct Shown(Vec<String>);

impl Shown {
    pub(super) fn now(browser: &Browser) -> Self {
        Self(browser.state.tabs().all().iter().map(|it| it.loader.clone()).collect())
    }

    fn has(&self, loader: &str) -> bool {
        self.0.iter().any(|it| it == loader)
    }
}

/// What a page was before an action.
#[derive(Debug)]
pub(super) struct Before {
    tab: u64,
    loader: String,
    url: String,
    /// The keys of documents, and the marks in them.
    marks: Vec<(u64, u64)>,
}

/// Marks a page.
///
/// # Errors
/// It is gone, or does not answer.
pub(super) async fn mark(browser: &mut Browser, view: &View) -> Result<Before, Problem> {
    let mut marks = Vec::new();
    for node in view.nodes.iter().take(MOST_DOCUMENTS) {
        match node.document.call(&browser.client, "mark", json!({"budget": {}})).await {
            Ok(marked) => marks.extend(marked["mark"].as_u64().map(|mark| (node.document.key, mark))),
            Err(problem) if node.parent.is_none() => return Err(problem),
            Err(_) => {}
        }
    }
    Ok(Before { tab: view.tab.id, loader: view.tab.loader.clone(), url: view.tab.url.clone(), marks })
}

/// How a page settled.
#[derive(Debug, Default)]
pub(super) struct Settled {
    is_quiet: bool,
    /// The page, if nothing but its user can change it.
    still: Option<View>,
}

/// Waits until the current page has loaded what it began to, and is quiet. For a page that this call loaded, the quiet time
/// since then counts, and one without scripts is quiet at once; any other must be quiet from now.
///
/// # Errors
/// It does not answer, or the browser is gone.
pub(super) async fn settle(browser: &mut Browser, shown: &Shown, most: Duration) -> Result<Settled, Problem> {
    let until = Instant::now() + most;
    let left = || until.saturating_duration_since(Instant::now());
    for _ in 0..MOST_LOADS {
        loaded(browser, left().min(LOADS)).await;
        match quiet(browser, shown, left().min(MOST)).await {
            Ok((quiet, mut view)) => {
                let now = browser.tab()?;
                if !now.is_busy && now.loader == view.tab.loader {
                    view.is_still = quiet["still"] == true;
                    return Ok(Settled { is_quiet: quiet["quiet"] == true, still: view.is_still.then_some(view) });
                }
            }
            // Another page came meanwhile.
            Err(Problem::Gone | Problem::Script(_)) => {}
            Err(problem) => return Err(problem),
        }
        if left().is_zero() {
            break;
        }
    }
    Ok(Settled::default())
}

/// Waits until the current page is quiet, at most this long. Gives what its script says of that.
async fn quiet(browser: &mut Browser, shown: &Shown, most: Duration) -> Result<(Value, View), Problem> {
    browser.show().await?;
    let view = View::of(browser).await?;
    let is_new = !shown.has(&view.tab.loader);
    let arguments = json!({"quiet_ms": QUIET_MS, "most_ms": most.as_millis() as u64, "loaded": is_new});
    let quiet = view.main().call(&browser.client, "settle", arguments).await?;
    Ok((quiet, view))
}

/// Waits until the current page is loaded. Returns whether it is.
async fn loaded(browser: &Browser, most: Duration) -> bool {
    let done = browser.state.wait(most, |tabs| match tabs.current() {
        Some(tab) if tab.is_busy && !tab.has_crashed => None,
        _ => Some(()),
    });
    done.await.is_some()
}

/// What became of a page since it was marked, for the answer of an action.
///
/// # Errors
/// The page does not answer, or the browser is gone.
pub(super) async fn since(
    browser: &mut Browser,
    shown: &Shown,
    before: Option<&Before>,
) -> Result<Map<String, Value>, Problem> {
    let Settled { is_quiet, still } = settle(browser, shown, LOADS + Duration::from_secs(2)).await?;
    let mut answer = whereabouts(browser)?;
    let view = match still {
        Some(view) => Ok(view),
        None => View::of(browser).await,
    };
    let view = match view {
        Ok(view) => view,
        Err(Problem::Gone | Problem::Script(_) | Problem::Call(CallError::Refused(_))) => {
            answer.insert("note".to_owned(), json!("the page is loading another one"));
            return Ok(answer);
        }
        Err(problem) => return Err(problem),
    };
    let same = before.filter(|it| it.tab == view.tab.id && it.loader == view.tab.loader);
    let info = match (same, before) {
        (Some(before), _) => compared(browser, &view, before, &mut answer).await?,
        (None, _) => new_page(browser, &view, &mut answer).await?,
    };
    // The script knows the title, and where it is now.
    if let Some(url) = info["url"].as_str() {
        answer.insert("url".to_owned(), json!(wording::line(url, 2000)));
    }
    answer.insert("title".to_owned(), json!(info["title"].as_str().unwrap_or_default()));
    if before.is_some_and(|it| it.url != info["url"].as_str().unwrap_or_default()) {
        answer.insert("url_changed".to_owned(), json!(true));
    }
    if !is_quiet {
        answer.insert("note".to_owned(), json!("the page is still loading or changing"));
    }
    Ok(answer)
}

/// The tab, and what happened in the browser.
///
/// # Errors
/// There is no tab.
pub(super) fn whereabouts(browser: &Browser) -> Result<Map<String, Value>, Problem> {
    let tab = browser.state.tabs().current().cloned().ok_or(Problem::NoTab)?;
    let mut answer = Map::new();
    answer.insert("page_id".to_owned(), json!(tab.id));
    answer.insert("url".to_owned(), json!(wording::line(&tab.url, 2000)));
    let is_known = |it: &Happening| matches!(it, Happening::Opened(id, _) if *id == tab.id);
    let events = browser.state.tabs().news.take(is_known);
    if !events.is_empty() {
        answer.insert("events".to_owned(), json!(events));
    }
    Ok(answer)
}

/// The first elements of a page that was not there before.
async fn new_page(browser: &mut Browser, view: &View, answer: &mut Map<String, Value>) -> Result<Value, Problem> {
    let (lines, info) = elements(browser, view, MOST_NEW).await?;
    answer.insert("new_page".to_owned(), json!(true));
    if let Some(status) = info["status"].as_u64().filter(|it| *it >= 400) {
        answer.insert("status".to_owned(), json!(status));
    }
    insert_lines(answer, "new", lines.lines);
    if let Some(cut) = lines.cut {
        answer.insert("cut".to_owned(), json!(cut));
    }
    Ok(info)
}

async fn compared(
    browser: &mut Browser,
    view: &View,
    before: &Before,
    answer: &mut Map<String, Value>,
) -> Result<Value, Problem> {
    let (mut new, mut gone, mut altered, mut text) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut info = Value::Null;
    for (key, mark) in &before.marks {
        let Some(at) = view.with_key(*key) else { continue };
        let document = &view.nodes[at].document;
        let changed = match document.call(&browser.client, "changed", json!({"mark": mark, "budget": {}})).await {
            Ok(changed) => changed,
            Err(problem) if at == 0 => return Err(problem),
            Err(_) => continue,
        };
        let list = |field: &str| changed[field].as_array().cloned().unwrap_or_default();
        new.extend(list("new").iter().map(|it| line(&mut browser.numbers, *key, it, 0)));
        gone.extend(list("gone").iter().map(|it| line(&mut browser.numbers, *key, it, 0)));
        let was = |it: &Value| it["was"].as_str().map(|it| format!(" (was: {it})")).unwrap_or_default();
        altered.extend(list("altered").iter().map(|it| line(&mut browser.numbers, *key, it, 0) + &was(it)));
        text.extend(list("text").iter().filter_map(Value::as_str).map(str::to_owned));
        if changed["focus"].is_object() {
            let focus = line(&mut browser.numbers, *key, &changed["focus"], 0);
            answer.insert("focus".to_owned(), json!(focus));
        }
        if at == 0 {
            info = changed["info"].clone();
        }
    }
    for (field, mut lines) in [("new", new), ("gone", gone), ("altered", altered), ("text", text)] {
        if lines.len() > MOST_NEW {
            let more = format!("{} more; browser_get_page_info lists them", lines.len() - MOST_NEW);
            lines.truncate(MOST_NEW);
            lines.push(more);
        }
        insert_lines(answer, field, lines);
    }
    Ok(info)
}

fn insert_lines(answer: &mut Map<String, Value>, field: &str, lines: Vec<String>) {
    if !lines.is_empty() {
        answer.insert(field.to_owned(), json!(lines));
    }
}
