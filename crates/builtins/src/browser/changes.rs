//! Detects what an action changed: marks a page before the action, waits until the page settles, and compares.

use std::time::{Duration, Instant};

use crate::browser::cdp::client::CallError;
use serde_json::{Map, Value, json};

use super::instance::Browser;
use super::listing::{elements, line};
use super::news::Happening;
use super::problem::Problem;
use super::view::View;
use super::wording;

/// The time limit for a page to finish loading.
const LOADS: Duration = Duration::from_secs(10);

/// How long a page must be quiet to count as settled. `MOST` limits the wait.
const QUIET_MS: u64 = 40;
const MOST: Duration = Duration::from_secs(1);

/// How many loads to wait for if a page keeps loading other pages.
const MOST_LOADS: usize = 4;

/// The maximum number of documents of one page that are compared.
const MOST_DOCUMENTS: usize = 6;

/// The maximum number of listed new elements. Another tool lists all of them.
const MOST_NEW: usize = 30;

/// The documents that the browser's tabs showed when the call began.
#[derive(Debug)]
pub(super) struct InitialDocuments(Vec<String>);

impl InitialDocuments {
    pub(super) fn now(browser: &Browser) -> Self {
        Self(browser.state.tabs().all.iter().map(|it| it.loader.clone()).collect())
    }

    fn has(&self, loader: &str) -> bool {
        self.0.iter().any(|it| it == loader)
    }
}

/// The state of a page before an action, for comparison.
#[derive(Debug)]
pub(super) struct Before {
    tab: u64,
    loader: String,
    url: String,
    /// Document keys, each with the mark set in that document.
    marks: Vec<(u64, u64)>,
}

/// Marks the documents of a page.
///
/// # Errors
/// The page is gone, or does not answer.
pub(super) async fn mark(view: &View) -> Result<Before, Problem> {
    let mut marks = Vec::new();
    for node in view.nodes.iter().take(MOST_DOCUMENTS) {
        let Some(marked) = node.call("mark", json!({"budget": {}})).await? else { continue };
        marks.extend(marked["mark"].as_u64().map(|mark| (node.document.key, mark)));
    }
    Ok(Before { tab: view.tab.id, loader: view.tab.loader.clone(), url: view.tab.url.clone(), marks })
}

/// Whether a page has settled.
#[derive(Debug, Default)]
pub(super) struct SettledPage {
    is_quiet: bool,
    /// The page, if only user input can change it.
    still: Option<View>,
}

/// Waits until the current page has finished loading and is quiet. If this call loaded the page, the quiet period
/// counts from the load, and a page without scripts counts as quiet immediately. For any other page, the quiet
/// period begins now.
///
/// # Errors
/// The page does not answer, or the browser is gone.
pub(super) async fn settle(
    browser: &mut Browser,
    initial: &InitialDocuments,
    most: Duration,
) -> Result<SettledPage, Problem> {
    let until = Instant::now() + most;
    let left = || until.saturating_duration_since(Instant::now());
    for _ in 0..MOST_LOADS {
        wait_until_loaded(browser, left().min(LOADS)).await;
        match quiet(browser, initial, left().min(MOST)).await {
            Ok((quiet, mut view)) => {
                let now = browser.tab()?;
                if !now.is_busy && now.loader == view.tab.loader {
                    view.is_still = quiet["still"] == true;
                    return Ok(SettledPage { is_quiet: quiet["quiet"] == true, still: view.is_still.then_some(view) });
                }
            }
            // Another page was loaded in the meantime.
            Err(Problem::Gone | Problem::Script(_)) => {}
            Err(problem) => return Err(problem),
        }
        if left().is_zero() {
            break;
        }
    }
    Ok(SettledPage::default())
}

/// Waits at most `most` until the current page is quiet. Returns the script's report.
async fn quiet(browser: &mut Browser, initial: &InitialDocuments, most: Duration) -> Result<(Value, View), Problem> {
    browser.show().await?;
    let view = View::capture(browser).await?;
    let is_new = !initial.has(&view.tab.loader);
    let arguments = json!({"quiet_ms": QUIET_MS, "most_ms": most.as_millis() as u64, "loaded": is_new});
    let quiet = view.main().call("settle", arguments).await?;
    Ok((quiet, view))
}

/// Waits at most `most` until the current page is loaded. Returns whether it is.
async fn wait_until_loaded(browser: &Browser, most: Duration) -> bool {
    let done = browser.state.wait(most, |tabs| match tabs.current() {
        Some(tab) if tab.is_busy && !tab.has_crashed => None,
        _ => Some(()),
    });
    done.await.is_some()
}

/// Returns what changed on a page since it was marked, for the result of an action.
///
/// # Errors
/// The page does not answer, or the browser is gone.
pub(super) async fn since(
    browser: &mut Browser,
    initial: &InitialDocuments,
    before: Option<&Before>,
) -> Result<Map<String, Value>, Problem> {
    let SettledPage { is_quiet, still } = settle(browser, initial, LOADS + Duration::from_secs(2)).await?;
    let mut answer = whereabouts(browser)?;
    let view = match still {
        Some(view) => Ok(view),
        None => View::capture(browser).await,
    };
    let view = match view {
        Ok(view) => view,
        Err(Problem::Gone | Problem::Script(_) | Problem::Call(CallError::Refused(_))) => {
            answer.insert("note".to_owned(), json!("the page is loading another page"));
            return Ok(answer);
        }
        Err(problem) => return Err(problem),
    };
    let same = before.filter(|it| it.tab == view.tab.id && it.loader == view.tab.loader);
    let info = match (same, before) {
        (Some(before), _) => compare(browser, &view, before, &mut answer).await?,
        (None, _) => new_page(browser, &view, &mut answer).await?,
    };
    // The script knows the current title and address.
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

/// Returns the current tab, and what happened in the browser since the last call.
///
/// # Errors
/// No tab is open.
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

/// Returns the first elements of a newly loaded page.
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

async fn compare(
    browser: &mut Browser,
    view: &View,
    before: &Before,
    answer: &mut Map<String, Value>,
) -> Result<Value, Problem> {
    let (mut new, mut gone, mut altered, mut text) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut info = Value::Null;
    for (key, mark) in &before.marks {
        let Some(at) = view.with_key(*key) else { continue };
        let arguments = json!({"mark": mark, "budget": {}});
        let Some(changed) = view.nodes[at].call("changed", arguments).await? else { continue };
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
