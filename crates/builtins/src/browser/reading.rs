//! The tools that read a page.

use serde_json::{Map, Value, json};

use super::changes::whereabouts;
use super::instance::Browser;
use super::listing::{elements, tree};
use super::problem::Problem;
use super::tool::Goal;
use super::view::View;
use super::wording::line;

/// The maximum number of elements in the information about a page.
const MOST_ELEMENTS: usize = 250;

/// The maximum number of returned accessibility tree lines.
const MOST_LINES: u64 = 5000;

/// The maximum number of returned characters of a page's content.
const MOST_CHARACTERS: usize = 60_000;

/// The maximum number of blocks extracted for a goal.
const MOST_BLOCKS: usize = 12;

/// Returns the current address, the tabs, and the usable elements.
///
/// # Errors
/// The page does not answer.
pub(super) async fn page_info(browser: &mut Browser) -> Result<Map<String, Value>, Problem> {
    let view = View::capture(browser).await?;
    let (lines, info) = elements(browser, &view, MOST_ELEMENTS).await?;
    let mut answer = whereabouts(browser)?;
    for field in ["url", "title", "lang", "viewport", "scroll", "size", "dialogs"] {
        let is_empty = info[field].as_array().is_some_and(Vec::is_empty);
        if let Some(value) = info.get(field).filter(|it| !it.is_null() && !is_empty) {
            answer.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(focus) = info["focus"].as_u64().filter(|it| *it > 0) {
        let number = browser.numbers.assign((view.main().key, focus));
        answer
            .insert("focus".to_owned(), json!(format!("[{number}] {}", info["focus_t"].as_str().unwrap_or_default())));
    }
    answer.insert("tabs".to_owned(), tabs(browser).await);
    answer.insert("elements".to_owned(), json!(lines.lines));
    answer.extend(lines.cut.map(|it| ("cut".to_owned(), json!(it))));
    Ok(answer)
}

/// Lists all tabs, with their titles if the browser knows them.
async fn tabs(browser: &Browser) -> Value {
    let found = browser.call("Target.getTargets", json!({})).await.unwrap_or_default();
    let title = |target: &str| {
        let mut infos = found["targetInfos"].as_array().into_iter().flatten();
        let info = infos.find(|it| it["targetId"] == target);
        line(info.and_then(|it| it["title"].as_str()).unwrap_or_default(), 120)
    };
    let tabs = browser.state.tabs();
    let current = tabs.current().map(|it| it.id);
    let one = |tab: &super::tabs::Tab| {
        json!({
            "page_id": tab.id, "url": line(&tab.url, 500), "title": title(&tab.target), "current": Some(tab.id) == current,
        })
    };
    tabs.all.iter().map(one).collect()
}

/// Returns the lines of the accessibility tree.
///
/// # Errors
/// The page does not answer.
pub(super) async fn ax_tree(browser: &mut Browser, most: u64) -> Result<Map<String, Value>, Problem> {
    let view = View::capture(browser).await?;
    let lines = tree(browser, &view, most.clamp(1, MOST_LINES) as usize).await?;
    let mut answer = whereabouts(browser)?;
    answer.insert("lines".to_owned(), json!(lines.lines));
    answer.extend(lines.cut.map(|it| ("cut".to_owned(), json!(it))));
    Ok(answer)
}

/// Returns the content of the page, or of a part of it, as Markdown. The content of frames appears in place.
///
/// # Errors
/// The selector matches nothing.
pub(super) async fn content(browser: &mut Browser, selector: Option<&str>) -> Result<Map<String, Value>, Problem> {
    let view = View::capture(browser).await?;
    let mut answer = whereabouts(browser)?;
    let (mut text, mut cut) = (String::new(), None);
    content_of(&view, (0, selector), (&mut text, &mut cut)).await?;
    answer.insert("content".to_owned(), json!(text.trim_end()));
    answer.extend(cut.map(|it| ("cut".to_owned(), json!(it))));
    Ok(answer)
}

async fn content_of(
    view: &View,
    (at, selector): (usize, Option<&str>),
    (text, cut): (&mut String, &mut Option<String>),
) -> Result<(), Problem> {
    let left = MOST_CHARACTERS.saturating_sub(text.len());
    let arguments = json!({"selector": selector, "budget": {"chars": left}});
    let answer = view.nodes[at].document.call("content", arguments).await?;
    if let Some(message) = answer.pointer("/cut/message").and_then(Value::as_str) {
        cut.get_or_insert_with(|| message.to_owned());
    }
    let frames: Vec<(u64, usize)> = view.within(at).collect();
    for block in answer["blocks"].as_array().into_iter().flatten() {
        if text.len() >= MOST_CHARACTERS {
            cut.get_or_insert_with(|| format!("only about {MOST_CHARACTERS} characters are returned"));
            break;
        }
        if let Some(block) = block["text"].as_str().filter(|it| !it.is_empty()) {
            text.push_str(block);
            text.push_str("\n\n");
        }
        let child = block["n"].as_u64().and_then(|n| frames.iter().find(|(owner, _)| *owner == n));
        if let Some((_, child)) = child {
            // A frame that has disappeared has no content.
            let _ = Box::pin(content_of(view, (*child, None), (&mut *text, &mut *cut))).await;
        }
    }
    Ok(())
}

/// Extracts the parts of a page that match a goal, each with its location. Takes the best matches from all frames.
///
/// # Errors
/// The page does not answer.
pub(super) async fn extract(browser: &mut Browser, asked: &Goal) -> Result<Map<String, Value>, Problem> {
    let view = View::capture(browser).await?;
    let mut answer = whereabouts(browser)?;
    let (mut blocks, mut of, mut cut): (Vec<Value>, u64, Option<String>) = (Vec::new(), 0, None);
    for node in &view.nodes {
        let arguments = json!({"goal": asked.goal, "links": asked.include_links, "budget": {}, "most": MOST_BLOCKS});
        let Some(found) = node.call("extract", arguments).await? else { continue };
        of += found["of"].as_u64().unwrap_or(0);
        if let Some(message) = found.pointer("/cut/message").and_then(Value::as_str) {
            cut.get_or_insert_with(|| message.to_owned());
        }
        blocks.extend(found["blocks"].as_array().cloned().unwrap_or_default());
    }
    if blocks.len() > MOST_BLOCKS {
        let score = |it: &Value| it["score"].as_f64().unwrap_or(0.0);
        let mut scores: Vec<f64> = blocks.iter().map(score).collect();
        scores.sort_by(|one, other| other.total_cmp(one));
        let least = scores[MOST_BLOCKS - 1];
        blocks.retain(|it| score(it) >= least);
        blocks.truncate(MOST_BLOCKS);
    }
    answer.insert("blocks".to_owned(), json!(blocks));
    answer.insert("of".to_owned(), json!(of));
    answer.extend(cut.map(|it| ("cut".to_owned(), json!(it))));
    Ok(answer)
}
