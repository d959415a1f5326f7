//! The mouse. Sends trusted events, like those of a physical mouse.

use std::time::Duration;

use crate::browser::cdp::client::CallError;
use serde_json::{Value, json};

use super::instance::Browser;
use super::problem::Problem;
use super::tabs::Tab;

/// The time limit for a native drag to begin after the mouse has moved.
const DRAG_BEGINS: Duration = Duration::from_millis(100);

/// The maximum number of steps in a drag.
pub(super) const MOST_STEPS: u64 = 200;

async fn send(browser: &Browser, tab: &Tab, method: &str, params: Value) -> Result<Value, Problem> {
    browser.call_page(&tab.session, method, params).await.map_err(|problem| match problem {
        // The previous event closed or replaced the page.
        Problem::Call(CallError::Refused(_)) => Problem::Gone,
        other => other,
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

/// Moves the pointer to a point.
///
/// # Errors
/// The same as for [`click`].
pub(super) async fn hover(browser: &Browser, tab: &Tab, to: (f64, f64)) -> Result<(), Problem> {
    mouse(browser, tab, "mouseMoved", to, "none").await
}

/// Presses and releases the left mouse button at a point. The click may close or replace the page.
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

/// Presses the button at one point, moves in steps, and releases it at another point. Uses native drag events if
/// the page uses native drag and drop.
///
/// # Errors
/// The same as for [`click`].
pub(super) async fn drag(
    browser: &Browser,
    tab: &Tab,
    from: (f64, f64),
    to: (f64, f64),
    steps: u64,
) -> Result<(), Problem> {
    browser.state.tabs().take_drag(tab.id);
    let intercept = |enabled: bool| send(browser, tab, "Input.setInterceptDrags", json!({"enabled": enabled}));
    let mut pressed = PressedButton { browser, tab, at: from, is_over: false };
    intercept(true).await?;
    let dragged = move_pressed(browser, tab, (from, to), steps.clamp(1, MOST_STEPS)).await;
    // Always release the button, and stop intercepting drags.
    let released = mouse(browser, tab, "mouseReleased", to, "left").await;
    let _ = intercept(false).await;
    pressed.is_over = true;
    match dragged.and(released) {
        Err(Problem::Gone) => Ok(()),
        done => done,
    }
}

/// Cleans up when a drag is cancelled: releases the button where it was pressed, so that nothing is dropped, and
/// stops intercepting drags.
struct PressedButton<'a> {
    browser: &'a Browser,
    tab: &'a Tab,
    at: (f64, f64),
    /// Whether the drag has completed normally.
    is_over: bool,
}

impl Drop for PressedButton<'_> {
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
            self.browser.client.send(session, method, &params);
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
        // Some pages check where the pointer ends up.
        None => mouse(browser, tab, "mouseMoved", to, "left").await,
    }
}

async fn drag_event(browser: &Browser, tab: &Tab, kind: &str, (x, y): (f64, f64), data: &Value) -> Result<(), Problem> {
    let params = json!({"type": kind, "x": x, "y": y, "data": data});
    send(browser, tab, "Input.dispatchDragEvent", params).await.map(drop)
}
