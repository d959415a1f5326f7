//! Finds the point at which the pointer hits an element with a given number, and presses there. Checks the element's
//! document first, then each enclosing frame, because any of them may cover the element.
//!
//! A press reaches only that element, whatever moves under the pointer after aiming. Each document of the page is
//! told which press to accept, and its script blocks the press on any other element. A document that can't be told
//! would accept any press, so in that case the press is not sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::instance::Browser;
use super::numbers::Numbers;
use super::pointer::{click, hover};
use super::problem::Problem;
use super::view::{MOST_FRAMES, View};

/// The maximum number of attempts for a moving element.
const MOST_TRIES: usize = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Why the pointer moves to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To press it. It must be enabled, and no element inside it may receive the press instead.
    Press,
    /// To rest on it.
    Hover,
}

/// A point on an element, in CSS pixels of the page's viewport.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Aim {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The same point in the viewport of the element's document.
    pub(super) own: (f64, f64),
    /// A one-line description of the element, without its number.
    pub(super) text: String,
    /// The index of the element's document.
    pub(super) at: usize,
    /// The element's number in that document.
    pub(super) local: u64,
}

/// Returns the document that contains the element with this number, and the element's number in that document.
///
/// # Errors
/// There is no such element, or its page is gone.
pub(super) fn element(browser: &Browser, view: &View, number: u64) -> Result<(usize, u64), Problem> {
    let Some((key, local)) = browser.numbers.find(number) else {
        return Err(match browser.numbers.was_given(number) {
            true => unknown("stale", &format!("element [{number}] is from an earlier page")),
            false => unknown("unknown_number", &format!("there is no element [{number}]")),
        });
    };
    let reason = || unknown("stale", &format!("element [{number}] is from an earlier page or from another tab"));
    Ok((view.with_key(key).ok_or_else(reason)?, local))
}

fn unknown(code: &str, reason: &str) -> Problem {
    let message = format!("{reason}; browser_get_page_info lists the current elements");
    Problem::Page { code: code.to_owned(), message, more: json!({}) }
}

/// Scrolls the element with this number into view, and returns a point at which the pointer hits it.
///
/// # Errors
/// The element is gone, hidden or covered. For a press: it is disabled.
pub(super) async fn at_number(
    browser: &mut Browser,
    view: &View,
    number: u64,
    purpose: Purpose,
) -> Result<Aim, Problem> {
    let (at, local) = element(browser, view, number)?;
    at_local(browser, view, (at, local), purpose).await
}

/// Like [`at_number`], for an element identified by its document and its number in that document.
///
/// # Errors
/// The same as for [`at_number`].
pub(super) async fn at_local(
    browser: &mut Browser,
    view: &View,
    (at, local): (usize, u64),
    purpose: Purpose,
) -> Result<Aim, Problem> {
    let is_hover = purpose == Purpose::Hover;
    let arguments = json!({"number": local, "enabled": !is_hover, "hover": is_hover});
    locate(browser, view, at, ("locate", arguments)).await
}

/// Returns a point at which the pointer hits the first element that matches a CSS selector, on the page or in one
/// of its frames.
///
/// # Errors
/// No element matches, or an error of [`at_number`] occurs.
pub(super) async fn at_selector(
    browser: &mut Browser,
    view: &View,
    selector: &str,
    purpose: Purpose,
) -> Result<Aim, Problem> {
    let mut first = None;
    for at in 0..view.nodes.len() {
        let arguments = json!({"selector": selector, "hover": purpose == Purpose::Hover});
        match locate(browser, view, at, ("locate_selector", arguments)).await {
            Err(problem) if problem.is("no_match") => first = first.or(Some(problem)),
            located => return located,
        }
    }
    Err(first.unwrap_or(Problem::Gone))
}

async fn locate(
    browser: &mut Browser,
    view: &View,
    at: usize,
    (name, arguments): (&str, Value),
) -> Result<Aim, Problem> {
    let document = &view.nodes[at].document;
    let mut tries = 0;
    loop {
        tries += 1;
        let found = document.call(name, arguments.clone()).await;
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

/// Returns the first of the element's points that no enclosing frame covers.
async fn outwards(browser: &mut Browser, view: &View, at: usize, found: &Value) -> Result<Aim, Problem> {
    let text = found["t"].as_str().unwrap_or_default().to_owned();
    let local = found["n"].as_u64().unwrap_or(0);
    let points = found["points"].as_array().into_iter().flatten();
    let mut problem = Problem::Script("the element has no point to click".to_owned());
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
        let info = view.nodes[here].document.call("info", json!({})).await?;
        let (width, height) = (&info["viewport"][0], &info["viewport"][1]);
        let arguments = json!({"number": owner, "x": x, "y": y, "width": width, "height": height});
        let outer = &view.nodes[parent].document;
        let entered = outer.call("enter", arguments).await;
        let entered = entered.map_err(|it| with_numbers(&mut browser.numbers, outer.key, it))?;
        (x, y) = (entered["x"].as_f64().ok_or(Problem::Gone)?, entered["y"].as_f64().ok_or(Problem::Gone)?);
        here = parent;
    }
    Ok((x, y))
}

/// Moves the pointer to the element, and checks again that it hits it: hovering or scrolling may place something
/// over it.
///
/// # Errors
/// The pointer hits something else, which the error names; the page does not answer, or the browser is gone.
async fn hover_over(browser: &mut Browser, view: &View, aim: &Aim) -> Result<(), Problem> {
    let moved = hover(browser, &view.tab, (aim.x, aim.y));
    if aim.local == 0 {
        return moved.await;
    }
    let document = &view.nodes[aim.at].document;
    let arguments = json!({"number": aim.local, "x": aim.own.0, "y": aim.own.1});
    let hits = || document.call("hits", arguments.clone());
    // The script's request is sent while the pointer moves, because the browser answers a move only one frame
    // later, and the script waits for the pointer. Script answers from before the move are ignored.
    let has_moved = AtomicBool::new(false);
    let moved = async { moved.await.inspect(|()| has_moved.store(true, Ordering::Relaxed)) };
    let first = async { (hits().await, has_moved.load(Ordering::Relaxed)) };
    let (moved, (first, counts)) = tokio::join!(moved, first);
    moved?;
    let hits = if counts { first? } else { hits().await? };
    if hits["hit"] == true {
        return Ok(());
    }
    let by = cover(&hits);
    let (message, more) = (format!("the element is covered by {by}"), json!({"by": by, "by_n": hits["by_n"]}));
    let problem = Problem::Page { code: "covered".to_owned(), message, more };
    Err(with_numbers(&mut browser.numbers, document.key, problem))
}

/// Returns what covers an element under the pointer, as the script in the page reports it.
fn cover(answer: &Value) -> &str {
    answer["by"].as_str().filter(|it| !it.is_empty()).unwrap_or("something else")
}

/// Replaces document-local element numbers in a problem with the numbers that the caller knows.
pub(super) fn with_numbers(numbers: &mut Numbers, document: u64, problem: Problem) -> Problem {
    let Problem::Page { code, mut message, mut more } = problem else { return problem };
    let mut similar = Vec::new();
    for one in more.get_mut("resembles").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(n) = one["n"].as_u64() {
            let number = numbers.assign((document, n));
            one["n"] = json!(number);
            similar.push(format!("[{number}] {}", one["t"].as_str().unwrap_or_default()));
        }
    }
    if let Some(n) = more.get("by_n").and_then(Value::as_u64).filter(|it| *it > 0) {
        let number = numbers.assign((document, n));
        more["by_n"] = json!(number);
        message.push_str(&format!(" (element [{number}])"));
    }
    if !similar.is_empty() {
        message.push_str(&format!("; similar elements now: {}", similar.join(", ")));
    }
    Problem::Page { code, message, more }
}

/// The time limit for a document to be told about a press, or to report whether it received it.
const HEARS: Duration = Duration::from_secs(1);

/// Moves the pointer to an element and presses it.
///
/// # Errors
/// Something moved over the element, which the error names; the page does not answer, or the browser is gone.
pub(super) async fn press_at(browser: &mut Browser, view: &View, aim: &Aim) -> Result<(), Problem> {
    hover_over(browser, view, aim).await?;
    let (view, at) = expect(browser, view, aim).await?;
    click(browser, &view.tab, (aim.x, aim.y)).await?;
    if verify_press(browser, &view, at).await? {
        return Ok(());
    }
    Err(covered_error(browser, view.nodes[at].document.key, &Value::Null))
}

/// Tells all current documents of a page to expect the next press on this element. Returns the documents, and the
/// index of the one that contains the element.
///
/// # Errors
/// The element is gone, its document does not answer, or not all documents could be told.
pub(super) async fn expect(browser: &mut Browser, view: &View, aim: &Aim) -> Result<(View, usize), Problem> {
    let key = view.nodes[aim.at].document.key;
    // The hover may have added frames.
    let view = View::capture(browser).await?;
    let at = view.with_key(key).ok_or(Problem::Gone)?;
    if !view.is_whole {
        return Err(unconfirmed_frame());
    }
    let told = view.nodes.iter().enumerate().map(|(other, node)| {
        let number = if other == at { aim.local } else { 0 };
        let arguments = json!({"number": number, "any": is_of_frame(&view, other, (at, aim.local))});
        node.document.call_within("expect_press", arguments, HEARS)
    });
    let mut told = join_all(told).await;
    told.swap_remove(at).map_err(|problem| with_numbers(&mut browser.numbers, key, problem))?;
    if told.iter().any(Result::is_err) {
        return Err(unconfirmed_frame());
    }
    Ok((view, at))
}

/// Returns the error for a press that is not sent because a frame that does not expect it might receive it.
fn unconfirmed_frame() -> Problem {
    let message = format!(
        "a frame of the page may cover the element: it does not answer, or the page has more than {MOST_FRAMES} frames; try \
         again when the page has loaded, or open the address of the frame that you need with browser_navigate"
    );
    Problem::Page { code: "covered".to_owned(), message, more: json!({}) }
}

/// Returns whether a document is inside the frame that this element represents.
fn is_of_frame(view: &View, mut document: usize, (at, local): (usize, u64)) -> bool {
    while let Some(parent) = view.nodes[document].parent {
        if parent == at && view.nodes[document].owner == Some(local) {
            return true;
        }
        document = parent;
    }
    false
}

/// Checks that the press reached its element. Returns `false` if no document noticed the press.
///
/// # Errors
/// Something else was under the pointer and blocked the press; the page does not answer, or the browser is gone.
pub(super) async fn verify_press(browser: &mut Browser, view: &View, at: usize) -> Result<bool, Problem> {
    let asked = view.nodes.iter().enumerate().map(|(other, node)| {
        let call = node.document.call_within("pressed", json!({}), HEARS);
        async move { (other, call.await) }
    });
    let mut is_taken = false;
    for (other, answer) in join_all(asked).await {
        match answer {
            Ok(answer) if answer["taken"] == true => is_taken = true,
            Ok(answer) if answer["taken"] == false => {
                return Err(covered_error(browser, view.nodes[other].document.key, &answer));
            }
            // The press may have closed or replaced the page, or keep it busy.
            Err(_) if other == at => is_taken = true,
            _ => {}
        }
    }
    Ok(is_taken)
}

fn covered_error(browser: &mut Browser, document: u64, answer: &Value) -> Problem {
    let by = cover(answer);
    let message = format!("{by} moved over the element just before it was pressed");
    let more = json!({"by": by, "by_n": answer["by_n"]});
    with_numbers(&mut browser.numbers, document, Problem::Page { code: "covered".to_owned(), message, more })
}
