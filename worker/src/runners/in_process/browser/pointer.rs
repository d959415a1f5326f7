//! The mouse: trusted events, as of a person's hand.

use std::time::Duration;

use openskill_cdp::client::CallError;
use serde_json::{Value, json};

use super::instance::{Browser, OF_PAGE};
use super::problem::Problem;
use super::tabs::Tab;

/// How long a drag of the page's own kind may take to begin once the mouse moved.
const DRAG_BEGINS: Duration = Duration::from_millis(100);

/// The most steps of a drag.
pub(super) const MOST_STEPS: u64 = 200;

async fn send(browser: &Browser, tab: &Tab, method: &str, params: Value) -> Result<Value, Problem> {
    browser.client.call(Some(&tab.session), method, &params, OF_PAGE).await.map_err(|error| match error {
        CallError::Late(time) => Problem::Stuck(time),
        // The page went with the event that came before.
        CallError::Refused(_) => Problem::Gone,
        other => other.into(),
    })
}

async fn mouse(browser: &Browser, tab: &Tab, kind: &str, (x, y): (f64, f64), button: &str) -> Result<(), Problem> {
    let (buttons, clicks) = match (kind, button) {
        ("mousePressed", _) => (1, 1),
        ("mouseReleased", _) => (0, 1),
        (_, "left") => (1, 0),
        _ => (0, 0),
    };
    let params = json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": clicks});
    send(browser, tab, "Input.dispatchMouseEvent", params).await.map(drop)
}

/// Moves the pointer there.
///
/// # Errors
/// As [`click`].
pub(super) async fn hover(browser: &Browser, tab: &Tab, to: (f64, f64)) -> Result<(), Problem> {
    mouse(browser, tab, "mouseMoved", to, "none").await
}

/// Presses and releases where the pointer is. What the page does on the press may take the page away.
///
/// # Errors
/// The page does not answer, or the browser is gone.
pub(super) async fn click(browser: &Browser, tab: &Tab, to: (f64, f64)) -> Result<(), Problem> {
    let (pressed, released) =
        tokio::join!(mouse(browser, tab, "mousePressed", to, "left"), mouse(browser, tab, "mouseReleased", to, "left"));
    for done in [pressed, released] {
        match done {
            Ok(()) | Err(Problem::Gone) => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

/// Presses at one point, moves in steps, and releases at another. Where the page uses the browser's own drags, these.
///
/// # Errors
/// As [`click`].
pub(super) async fn drag(
    browser: &Browser,
    tab: &Tab,
    from: (f64, f64),
    to: (f64, f64),
    steps: u64,
) -> Result<(), Problem> {
    browser.state.tabs().take_drag(tab.id);
    let intercept = |enabled: bool| send(browser, tab, "Input.setInterceptDrags", json!({"enabled": enabled}));
    let mut held = Held { browser, tab, at: from, is_over: false };
    intercept(true).await?;
    let dragged = move_pressed(browser, tab, (from, to), steps.clamp(1, MOST_STEPS)).await;
    // Whatever came of it, the button is up and later events go their usual way.
    let released = mouse(browser, tab, "mouseReleased", to, "left").await;
    let _ = intercept(false).await;
    held.is_over = true;
    match dragged.and(released) {
        Err(Problem::Gone) => Ok(()),
        done => done,
    }
}

/// A button that is pressed. If nobody waits for the drag any more, it goes up where it went down, nothing is dragged, and later
/// events go their usual way.
struct Held<'a> {
    browser: &'a Browser,
    tab: &'a Tab,
    at: (f64, f64),
    /// Whether the drag has ended by itself.
    is_over: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let ((x, y), session) = (self.at, Some(self.tab.session.as_str()));
        let released =
            json!({"type": "mouseReleased", "x": x, "y": y, "button": "left", "buttons": 0, "clickCount": 1});
        for (method, params) in [
            ("Input.cancelDragging", json!({})),
            ("Input.dispatchMouseEvent", released),
            ("Input.setInterceptDrags", json!({"enabled": false})),
        ] {
            self.browser.client.tell(session, method, &params);
        }
        self.browser.state.tabs().take_drag(self.tab.id);
    }
}

async fn move_pressed(
    browser: &Browser,
    tab: &Tab,
    (from, to): ((f64, f64), (f64, f64)),
    steps: u64,
) -> Result<(), Problem> {
    mouse(browser, tab, "mouseMoved", from, "none").await?;
    mouse(browser, tab, "mousePressed", from, "left").await?;
    if from == to {
        return Ok(());
    }
    let mut data = None;
    for step in 1..=steps {
        let part = step as f64 / steps as f64;
        let here = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
        if let Some(data) = &data {
            drag_event(browser, tab, "dragOver", here, data).await?;
            continue;
        }
        mouse(browser, tab, "mouseMoved", here, "left").await?;
        if step == 1 || step == steps {
            let begins = if step == 1 || steps == 1 { DRAG_BEGINS } else { Duration::ZERO };
            let begun = |tabs: &super::tabs::Tabs| tabs.get(tab.id).filter(|it| it.drag.is_some()).map(drop);
            browser.state.wait(begins, begun).await;
        }
        data = browser.state.tabs().take_drag(tab.id);
        if let Some(data) = &data {
            drag_event(browser, tab, "dragEnter", here, data).await?;
        }
    }
    match data {
        Some(data) => {
            drag_event(browser, tab, "dragOver", to, &data).await?;
            drag_event(browser, tab, "drop", to, &data).await
        }
        // Some pages look where the pointer rests.
        None => mouse(browser, tab, "mouseMoved", to, "left").await,
    }
}

async fn drag_event(browser: &Browser, tab: &Tab, kind: &str, (x, y): (f64, f64), data: &Value) -> Result<(), Problem> {
    let params = json!({"type": kind, "x": x, "y": y, "data": data});
    send(browser, tab, "Input.dispatchDragEvent", params).await.map(drop)
}
