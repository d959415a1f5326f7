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

/// A listing in progress.
struct Listing<'a> {
    view: &'a View,
    /// The function of the script, and the field of its answer with the elements.
    function: &'static str,
    field: &'static str,
    most: usize,
    found: BoundedLines,
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
    let mut listing = Listing { view, function: "index", field: "elements", most, found: BoundedLines::default() };
    let info = listing.add(browser, 0, 0, 0).await?;
    Ok((listing.found, info))
}

/// Returns the accessibility tree of a page, at most `most` lines.
///
/// # Errors
/// The page is gone, or does not answer.
pub(super) async fn tree(browser: &mut Browser, view: &View, most: usize) -> Result<BoundedLines, Problem> {
    let mut listing = Listing { view, function: "lines", field: "lines", most, found: BoundedLines::default() };
    listing.add(browser, 0, 0, 0).await?;
    Ok(listing.found)
}

impl Listing<'_> {
    /// Adds the elements of a document, indented by `indent`, and those of the frames in it. Returns the information
    /// about the document.
    async fn add(&mut self, browser: &mut Browser, at: usize, indent: usize, level: usize) -> Result<Value, Problem> {
        let mut answer = self.ask(browser, at).await?;
        if let Some(message) = answer.pointer("/cut/message").and_then(Value::as_str) {
            self.found.cut.get_or_insert_with(|| message.to_owned());
        }
        let key = self.view.nodes[at].document.key;
        let frames: Vec<(u64, usize)> = self.view.within(at).collect();
        let mut seen = Vec::new();
        for element in answer[self.field].as_array().into_iter().flatten() {
            if self.is_full() {
                break;
            }
            let indent = indent + element["d"].as_u64().unwrap_or(0).min(100) as usize;
            self.found.lines.push(line(&mut browser.numbers, key, element, indent));
            let frame = element["n"].as_u64().and_then(|n| frames.iter().find(|(owner, _)| *owner == n));
            if let Some((_, child)) = frame
                && level < MOST_LEVELS
            {
                seen.push(*child);
                // A frame that has disappeared has no elements.
                let _ = Box::pin(self.add(browser, *child, indent + 1, level + 1)).await;
            }
        }
        let listed = |owner: u64| {
            let frames = answer["frames"].as_array().into_iter().flatten();
            frames.filter(|it| it["where"] == "in").any(|it| it["n"] == owner)
        };
        for (owner, child) in frames.iter().filter(|(_, it)| !seen.contains(it)) {
            if listed(*owner) && level < MOST_LEVELS && !self.is_full() {
                let _ = Box::pin(self.add(browser, *child, indent + 1, level + 1)).await;
            }
        }
        Ok(answer["info"].take())
    }

    /// Calls the script in a document, after giving it the listeners and closed shadow roots that it can't see.
    async fn ask(&self, browser: &mut Browser, at: usize) -> Result<Value, Problem> {
        let document = &self.view.nodes[at].document;
        if !self.view.is_still {
            tell_listeners(browser, document).await;
        }
        let most = self.most.saturating_sub(self.found.lines.len()).max(1);
        let arguments = json!({"budget": {self.field: most}});
        let mut answer = document.call(self.function, arguments.clone()).await?;
        for _ in 0..MOST_ROUNDS {
            let hosts = answer["hosts"].as_u64().unwrap_or(0);
            if hosts == 0 || !show_closed_roots(document, hosts).await {
                break;
            }
            if self.view.is_still {
                // Scripts may have run in the document.
                tell_listeners(browser, document).await;
            }
            answer = document.call(self.function, arguments.clone()).await?;
        }
        Ok(answer)
    }

    fn is_full(&mut self) -> bool {
        let is_full = self.found.lines.len() >= self.most;
        if is_full {
            self.found.cut.get_or_insert_with(|| format!("only the first {} are listed", self.most));
        }
        is_full
    }
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
