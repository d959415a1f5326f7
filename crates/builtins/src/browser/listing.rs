//! Lists the elements of a page as lines for callers, such as `[12] button "Send"`. Frame contents appear in
//! place.

use serde_json::{Value, json};

use super::instance::Browser;
use super::numbers::Numbers;
use super::problem::Problem;
use super::view::{View, show_closed_roots, tell_listeners};

/// The maximum number of rounds for revealing nested closed shadow roots.
const MOST_ROUNDS: usize = 4;

/// The maximum nesting depth of frames.
const MOST_LEVELS: usize = 8;

/// Lines up to a limit, and the reason if lines are missing.
#[derive(Debug, Default)]
pub(super) struct BoundedLines {
    pub(super) lines: Vec<String>,
    pub(super) cut: Option<String>,
}

impl BoundedLines {
    fn cut_by(&mut self, answer: &Value) {
        if let Some(message) = answer.pointer("/cut/message").and_then(Value::as_str) {
            self.cut.get_or_insert_with(|| message.to_owned());
        }
    }

    fn is_full(&mut self, most: usize) -> bool {
        if self.lines.len() >= most {
            self.cut.get_or_insert_with(|| format!("only the first {most} are listed"));
            return true;
        }
        false
    }
}

/// Calls `index` or `lines` in a document, after giving its script the listeners and closed shadow roots that it
/// can't see.
async fn ask(browser: &mut Browser, view: &View, at: usize, (name, most): (&str, usize)) -> Result<Value, Problem> {
    let document = &view.nodes[at].document;
    if !view.is_still {
        tell_listeners(browser, document).await;
    }
    let budget = if name == "index" { json!({"elements": most}) } else { json!({"lines": most}) };
    let arguments = json!({"budget": budget, "viewport_only": false});
    let mut answer = document.call(&browser.client, name, arguments.clone()).await?;
    for _ in 0..MOST_ROUNDS {
        let hosts = answer["hosts"].as_u64().unwrap_or(0);
        if hosts == 0 || !show_closed_roots(browser, document, hosts).await {
            break;
        }
        if view.is_still {
            // Scripts may have run in the document.
            tell_listeners(browser, document).await;
        }
        answer = document.call(&browser.client, name, arguments.clone()).await?;
    }
    Ok(answer)
}

/// Returns at most `most` usable elements of a page, one per line, and information about the page.
///
/// # Errors
/// The page is gone, or does not answer.
pub(super) async fn elements(
    browser: &mut Browser,
    view: &View,
    most: usize,
) -> Result<(BoundedLines, Value), Problem> {
    let mut lines = BoundedLines::default();
    let info = elements_of(browser, view, 0, &mut lines, most, 0).await?;
    Ok((lines, info))
}

async fn elements_of(
    browser: &mut Browser,
    view: &View,
    at: usize,
    lines: &mut BoundedLines,
    most: usize,
    level: usize,
) -> Result<Value, Problem> {
    let mut answer = ask(browser, view, at, ("index", most.saturating_sub(lines.lines.len()).max(1))).await?;
    lines.cut_by(&answer);
    let key = view.nodes[at].document.key;
    let frames: Vec<(u64, usize)> = view.within(at).collect();
    let mut seen = Vec::new();
    for element in answer["elements"].as_array().into_iter().flatten() {
        if lines.is_full(most) {
            break;
        }
        lines.lines.push(line(&mut browser.numbers, key, element, level));
        let frame = element["n"].as_u64().and_then(|n| frames.iter().find(|(owner, _)| *owner == n));
        if let Some((_, child)) = frame
            && level < MOST_LEVELS
        {
            seen.push(*child);
            // A frame that has disappeared has no elements.
            let _ = Box::pin(elements_of(browser, view, *child, lines, most, level + 1)).await;
        }
    }
    let listed = |answer: &Value, owner: u64| {
        let frames = answer["frames"].as_array().into_iter().flatten();
        frames.filter(|it| it["where"] == "in").any(|it| it["n"] == owner)
    };
    for (owner, child) in frames.iter().filter(|(_, it)| !seen.contains(it)) {
        if listed(&answer, *owner) && level < MOST_LEVELS && !lines.is_full(most) {
            let _ = Box::pin(elements_of(browser, view, *child, lines, most, level + 1)).await;
        }
    }
    Ok(answer["info"].take())
}

/// Formats one element as a line, with its number.
pub(super) fn line(numbers: &mut Numbers, document: u64, element: &Value, level: usize) -> String {
    let text = element["t"].as_str().unwrap_or_default();
    let mut line = "  ".repeat(level);
    if let Some(n) = element["n"].as_u64().filter(|it| *it > 0) {
        line.push_str(&format!("[{}] ", numbers.assign((document, n))));
    }
    line.push_str(text);
    let options: Vec<&str> = element["options"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !options.is_empty() {
        let more = element["more_options"].as_u64().filter(|it| *it > 0);
        let more = more.map(|it| format!(" | {it} more")).unwrap_or_default();
        line.push_str(&format!(" options: {}{more}", options.join(" | ")));
    }
    line
}

/// Returns the accessibility tree of a page, at most `most` lines.
///
/// # Errors
/// The page is gone, or does not answer.
pub(super) async fn tree(browser: &mut Browser, view: &View, most: usize) -> Result<BoundedLines, Problem> {
    let mut lines = BoundedLines::default();
    tree_of(browser, view, 0, &mut lines, most, 0, 0).await?;
    Ok(lines)
}

async fn tree_of(
    browser: &mut Browser,
    view: &View,
    at: usize,
    lines: &mut BoundedLines,
    most: usize,
    depth: u64,
    level: usize,
) -> Result<(), Problem> {
    let answer = ask(browser, view, at, ("lines", most.saturating_sub(lines.lines.len()).max(1))).await?;
    lines.cut_by(&answer);
    let key = view.nodes[at].document.key;
    let frames: Vec<(u64, usize)> = view.within(at).collect();
    for element in answer["lines"].as_array().into_iter().flatten() {
        if lines.is_full(most) {
            break;
        }
        let own = depth + element["d"].as_u64().unwrap_or(0).min(100);
        lines.lines.push(line(&mut browser.numbers, key, element, own as usize));
        let frame = element["n"].as_u64().and_then(|n| frames.iter().find(|(owner, _)| *owner == n));
        if let Some((_, child)) = frame
            && level < MOST_LEVELS
        {
            let _ = Box::pin(tree_of(browser, view, *child, lines, most, own + 1, level + 1)).await;
        }
    }
    Ok(())
}
