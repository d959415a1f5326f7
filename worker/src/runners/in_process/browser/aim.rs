//! From a number to a point that a pointer would hit: in the element's own document first, then outwards through the frames
//! that it is in, each of which may cover it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::instance::Browser;
use super::numbers::Numbers;
use super::pointer::hover;
use super::problem::Problem;
use super::view::View;

/// How often an element that moves is waited for.
const MOST_TRIES: usize = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// A point of an element, in CSS pixels of the page's viewport.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Aim {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The same in the viewport of its own document.
    pub(super) own: (f64, f64),
    /// The element in a line, without its number.
    pub(super) text: String,
    /// Which document it is in.
    pub(super) at: usize,
    /// Its number in there.
    pub(super) local: u64,
}

/// The element with this number: its document, and its number in there.
///
/// # Errors
/// There is none, or its page is gone.
pub(super) fn element(browser: &Browser, view: &View, number: u64) -> Result<(usize, u64), Problem> {
    let Some((key, local)) = browser.numbers.find(number) else {
        let reason = match browser.numbers.was_given(number) {
            true => format!("element [{number}] is from a page that is gone"),
            false => format!("there is no element [{number}]"),
        };
        return Err(unknown(if browser.numbers.was_given(number) { "stale" } else { "unknown_number" }, &reason));
    };
    let reason = || unknown("stale", &format!("element [{number}] is from a page that is gone, or of another tab"));
    Ok((view.with_key(key).ok_or_else(reason)?, local))
}

fn unknown(code: &str, reason: &str) -> Problem {
    let message = format!("{reason}; browser_get_page_info lists the elements that there are");
    Problem::Page { code: code.to_owned(), message, more: json!({}) }
}

/// Where a pointer hits the element with this number. Scrolls it into view.
///
/// # Errors
/// It is gone, hidden, covered or disabled.
pub(super) async fn at_number(browser: &mut Browser, view: &View, number: u64, enabled: bool) -> Result<Aim, Problem> {
    let (at, local) = element(browser, view, number)?;
    at_local(browser, view, (at, local), enabled).await
}

/// The same for an element by its document and the number in there.
///
/// # Errors
/// As [`at_number`].
pub(super) async fn at_local(
    browser: &mut Browser,
    view: &View,
    (at, local): (usize, u64),
    enabled: bool,
) -> Result<Aim, Problem> {
    let arguments = json!({"number": local, "scroll": true, "enabled": enabled});
    located(browser, view, at, ("locate", arguments)).await
}

/// Where a pointer hits the first element that a CSS selector names, in the page or in one of its frames.
///
/// # Errors
/// There is none, or as [`at_number`].
pub(super) async fn at_selector(browser: &mut Browser, view: &View, selector: &str) -> Result<Aim, Problem> {
    let mut first = None;
    for at in 0..view.nodes.len() {
        let arguments = json!({"selector": selector, "scroll": true});
        match located(browser, view, at, ("locate_selector", arguments)).await {
            Err(problem) if problem.is("no_match") => first = first.or(Some(problem)),
            located => return located,
        }
    }
    Err(first.unwrap_or(Problem::Gone))
}

async fn located(
    browser: &mut Browser,
    view: &View,
    at: usize,
    (name, arguments): (&str, Value),
) -> Result<Aim, Problem> {
    let document = &view.nodes[at].document;
    let mut tries = 0;
    loop {
        tries += 1;
        let found = document.call(&browser.client, name, arguments.clone()).await;
        let problem = match found {
            Ok(found) => match outwards(browser, view, at, &found).await {
                Ok(aim) => return Ok(aim),
                Err(problem) => problem,
            },
            Err(problem) => problem,
        };
        if !(problem.is("moving") && tries < MOST_TRIES) {
            return Err(with_numbers(&mut browser.numbers, document.key, problem));
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

/// The first of the element's points that nothing covers on the way out of its frames.
async fn outwards(browser: &mut Browser, view: &View, at: usize, found: &Value) -> Result<Aim, Problem> {
    let text = found["t"].as_str().unwrap_or_default().to_owned();
    let local = found["n"].as_u64().unwrap_or(0);
    let points = found["points"].as_array().into_iter().flatten();
    let mut problem = Problem::Script("the element has no point".to_owned());
    for point in points.filter_map(|it| Some((it[0].as_f64()?, it[1].as_f64()?))) {
        match through(browser, view, at, point).await {
            Ok((x, y)) => return Ok(Aim { x, y, own: point, text, at, local }),
            Err(other) => problem = other,
        }
    }
    Err(problem)
}

async fn through(browser: &mut Browser, view: &View, at: usize, point: (f64, f64)) -> Result<(f64, f64), Problem> {
    let (mut here, (mut x, mut y)) = (at, point);
    while let (Some(parent), Some(owner)) = (view.nodes[here].parent, view.nodes[here].owner) {
        let info = view.nodes[here].document.call(&browser.client, "info", json!({})).await?;
        let (width, height) = (&info["viewport"][0], &info["viewport"][1]);
        let arguments = json!({"number": owner, "x": x, "y": y, "width": width, "height": height, "scroll": true});
        let outer = &view.nodes[parent].document;
        let entered = outer.call(&browser.client, "enter", arguments).await;
        let entered = entered.map_err(|it| with_numbers(&mut browser.numbers, outer.key, it))?;
        (x, y) = (entered["x"].as_f64().ok_or(Problem::Gone)?, entered["y"].as_f64().ok_or(Problem::Gone)?);
        here = parent;
    }
    Ok((x, y))
}

/// Moves the pointer to the element: hovering or scrolling may bring something over it.
///
/// # Errors
/// The pointer does not hit it: what it hits. The page does not answer, or the browser is gone.
pub(super) async fn hover_over(browser: &mut Browser, view: &View, aim: &Aim) -> Result<(), Problem> {
    let moved = hover(browser, &view.tab, (aim.x, aim.y));
    if aim.local == 0 {
        return moved.await;
    }
    let document = &view.nodes[aim.at].document;
    let arguments = json!({"number": aim.local, "x": aim.own.0, "y": aim.own.1});
    let hits = || document.call(&browser.client, "hits", arguments.clone());
    // Asked while the pointer moves, because the browser answers a move a frame later; the script waits for the pointer. What it
    // says before the move is answered does not count.
    let has_moved = AtomicBool::new(false);
    let moved = async { moved.await.inspect(|()| has_moved.store(true, Ordering::Relaxed)) };
    let first = async { (hits().await, has_moved.load(Ordering::Relaxed)) };
    let (moved, (first, counts)) = tokio::join!(moved, first);
    moved?;
    let hits = if counts { first? } else { hits().await? };
    if hits["hit"] == true {
        return Ok(());
    }
    let by = hits["by"].as_str().unwrap_or("something else");
    let (message, more) = (format!("the element is covered by {by}"), json!({"by": by, "by_n": hits["by_n"]}));
    let problem = Problem::Page { code: "covered".to_owned(), message, more };
    Err(with_numbers(&mut browser.numbers, document.key, problem))
}

/// The numbers that a caller knows, in place of those of a document.
pub(super) fn with_numbers(numbers: &mut Numbers, document: u64, problem: Problem) -> Problem {
    let Problem::Page { code, mut message, mut more } = problem else { return problem };
    let mut similar = Vec::new();
    for one in more.get_mut("resembles").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(n) = one["n"].as_u64() {
            let number = numbers.of((document, n));
            one["n"] = json!(number);
            similar.push(format!("[{number}] {}", one["t"].as_str().unwrap_or_default()));
        }
    }
    if let Some(n) = more.get("by_n").and_then(Value::as_u64).filter(|it| *it > 0) {
        let number = numbers.of((document, n));
        more["by_n"] = json!(number);
        message.push_str(&format!(" (element [{number}])"));
    }
    if !similar.is_empty() {
        message.push_str(&format!("; what resembles it now: {}", similar.join(", ")));
    }
    Problem::Page { code, message, more }
}
