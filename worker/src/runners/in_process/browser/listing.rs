//! What is on a page, as callers read it: lines such as `[12] button "Send"`, frames spliced in where they are.

use serde_json::{Value, json};

use super::instance::Browser;
use super::numbers::Numbers;
use super::problem::Problem;
use super::view::{View, show_closed_roots, tell_listeners};

/// How often a document is asked again because of closed shadow roots in closed shadow roots.
const MOST_ROUNDS: usize = 4;

/// Frames within frames.
const MOST_LEVELS: usize = 8;

/// Lines, and why there are not more.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) lines: Vec<String>,
    pub(super) cut: Option<String>,
}

impl Lines {
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

/// Calls `index` or `lines` of a document, once what the script can't see by itself was shown to it.
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
            // A script may have been in there.
            tell_listeners(browser, document).await;
        }
        answer = document.call(&browser.client, name, arguments.clone()).await?;
    }
    Ok(answer)
}

/// The elements of a page that can be used, in a line each, and what is known of the page. At most `most`.
///
/// # Errors
/// The page is gone, or does not answer.
pub(super) async fn elements(browser: &mut Browser, view: &View, most: usize) -> Result<(Lines, Value), Problem> {
    let mut lines = Lines::default();
    let info = elements_of(browser, view, 0, (&mut lines, most, 0)).await?;
    Ok((lines, info))
}

async fn elements_of(
    browser: &mut Browser,
    view: &View,
    at: usize,
    (lines, most, level): (&mut Lines, usize, usize),
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
            // A frame that is gone has no elements.
            let _ = Box::pin(elements_of(browser, view, *child, (&mut *lines, most, level + 1))).await;
        }
    }
    let listed = |answer: &Value, owner: u64| {
        let frames = answer["frames"].as_array().into_iter().flatten();
        frames.filter(|it| it["where"] == "in").any(|it| it["n"] == owner)
    };
    for (owner, child) in frames.iter().filter(|(_, it)| !seen.contains(it)) {
        if listed(&answer, *owner) && level < MOST_LEVELS && !lines.is_full(most) {
            let _ = Box::pin(elements_of(browser, view, *child, (&mut *lines, most, level + 1))).await;
        }
    }
    Ok(answer["info"].take())
}

/// An element in a line, with its number.
pub(super) fn line(numbers: &mut Numbers, document: u64, element: &Value, level: usize) -> String {
    let text = element["t"].as_str().unwrap_or_default();
    let mut line = "  ".repeat(level);
    if let Some(n) = element["n"].as_u64().filter(|it| *it > 0) {
        line.push_str(&format!("[{}] ", numbers.of((document, n))));
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

/// The accessibility tree of a page: at most `most` lines.
///
/// # Errors
/// The page is gone, or does not answer.
pub(super) async fn tree(browser: &mut Browser, view: &View, most: usize) -> Result<Lines, Problem> {
    let mut lines = Lines::default();
    tree_of(browser, view, 0, (&mut lines, most, 0, 0)).await?;
    Ok(lines)
}

async fn tree_of(
    browser: &mut Browser,
    view: &View,
    at: usize,
    (lines, most, depth, level): (&mut Lines, usize, u64, usize),
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
            let _ = Box::pin(tree_of(browser, view, *child, (&mut *lines, most, own + 1, level + 1))).await;
        }
    }
    Ok(())
}
