//! A press on one element and on no other, whatever comes under the pointer after it was aimed: each document of the page is
//! told which press it may take, and its script keeps any other from it. One that was not told would take any: there is no
//! press then.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::aim::{Aim, hover_over, with_numbers};
use super::instance::Browser;
use super::pointer::click;
use super::problem::Problem;
use super::view::{MOST_FRAMES, View};

/// How long a document may take to hear of a press, or to say whether it got it.
const HEARS: Duration = Duration::from_secs(1);

/// Moves the pointer to an element and presses it.
///
/// # Errors
/// Something came over it: what. The page does not answer, or the browser is gone.
pub(super) async fn press_at(browser: &mut Browser, view: &View, aim: &Aim) -> Result<(), Problem> {
    hover_over(browser, view, aim).await?;
    let (view, at) = expect(browser, view, aim).await?;
    click(browser, &view.tab, (aim.x, aim.y)).await?;
    match taken(browser, &view, at).await? {
        Some(()) => Ok(()),
        None => Err(covered(browser, view.nodes[at].document.key, &Value::Null)),
    }
}

/// Tells the documents that a page has now that the next press is for this element. Returns them, and which of them has it.
///
/// # Errors
/// It is gone, or its document does not answer. Not all documents could be told.
pub(super) async fn expect(browser: &mut Browser, view: &View, aim: &Aim) -> Result<(View, usize), Problem> {
    let key = view.nodes[aim.at].document.key;
    // Hovering may have brought frames.
    let view = View::of(browser).await?;
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

/// Why there is no press: a frame that was not told of it would take it, whatever it is for.
fn unconfirmed_frame() -> Problem {
    let message = format!(
        "a frame of the page may cover the element: it does not answer, or the page has more than {MOST_FRAMES} frames; try \
         again when the page has loaded, or open the address of the frame that you need with browser_navigate"
    );
    Problem::Page { code: "covered".to_owned(), message, more: json!({}) }
}

/// Whether a document is in the frame that this element is.
fn is_of_frame(view: &View, mut document: usize, (at, local): (usize, u64)) -> bool {
    while let Some(parent) = view.nodes[document].parent {
        if parent == at && view.nodes[document].owner == Some(local) {
            return true;
        }
        document = parent;
    }
    false
}

/// Whether the press came to its element. None: to no document that was told of it.
///
/// # Errors
/// Something else was under the pointer, and did not get the press. The page does not answer, or the browser is gone.
pub(super) async fn taken(browser: &mut Browser, view: &View, at: usize) -> Result<Option<()>, Problem> {
    let asked = view.nodes.iter().enumerate().map(|(other, node)| {
        let call = node.document.call_within(&browser.client, "pressed", json!({}), HEARS);
        async move { (other, call.await) }
    });
    let mut is_taken = None;
    for (other, answer) in join_all(asked).await {
        match answer {
            Ok(answer) if answer["taken"] == true => is_taken = Some(()),
            Ok(answer) if answer["taken"] == false => {
                return Err(covered(browser, view.nodes[other].document.key, &answer));
            }
            // What the press does may take the page away, or keep it busy.
            Err(_) if other == at => is_taken = Some(()),
            _ => {}
        }
    }
    Ok(is_taken)
}

fn covered(browser: &mut Browser, document: u64, answer: &Value) -> Problem {
    let by = answer["by"].as_str().filter(|it| !it.is_empty()).unwrap_or("something else");
    let message = format!("{by} came over the element when it was about to be pressed");
    let more = json!({"by": by, "by_n": answer["by_n"]});
    with_numbers(&mut browser.numbers, document, Problem::Page { code: "covered".to_owned(), message, more })
}
