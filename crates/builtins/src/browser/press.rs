//! Makes sure that a press reaches only one element, whatever moves under the pointer after aiming. Each document
//! of the page is told which press to accept, and its script blocks the press on any other element. A document
//! that can't be told would accept any press, so in that case the press is not sent.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::aim::{Aim, cover, hover_over, with_numbers};
use super::instance::Browser;
use super::pointer::click;
use super::problem::Problem;
use super::view::{MOST_FRAMES, View};

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
    match verify_press(browser, &view, at).await? {
        Some(()) => Ok(()),
        None => Err(covered_error(browser, view.nodes[at].document.key, &Value::Null)),
    }
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
        node.document.call_within(&browser.client, "expect_press", arguments, HEARS)
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

/// Checks that the press reached its element. Returns `None` if no document noticed the press.
///
/// # Errors
/// Something else was under the pointer and blocked the press; the page does not answer, or the browser is gone.
pub(super) async fn verify_press(browser: &mut Browser, view: &View, at: usize) -> Result<Option<()>, Problem> {
    let asked = view.nodes.iter().enumerate().map(|(other, node)| {
        let call = node.document.call_within(&browser.client, "pressed", json!({}), HEARS);
        async move { (other, call.await) }
    });
    let mut is_taken = None;
    for (other, answer) in join_all(asked).await {
        match answer {
            Ok(answer) if answer["taken"] == true => is_taken = Some(()),
            Ok(answer) if answer["taken"] == false => {
                return Err(covered_error(browser, view.nodes[other].document.key, &answer));
            }
            // The press may have closed or replaced the page, or keep it busy.
            Err(_) if other == at => is_taken = Some(()),
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
