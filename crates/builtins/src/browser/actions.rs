//! The tool actions on a page. They use trusted input events, sent to a point that was just hit-tested.

use std::time::Duration;

use serde_json::{Value, json};

use super::aim::{
    Aim, Purpose, at_local, at_number, at_selector, element, expect, press_at, verify_press, with_numbers,
};
use super::instance::Browser;
use super::keys::{press, type_text};
use super::pointer::{drag, hover};
use super::problem::Problem;
use super::tool::{Drag, ElementRef};
use super::view::View;
use super::wording::line;

/// The time limit for opening a dropdown.
const OPENS: Duration = Duration::from_secs(2);

/// How long menus deliberately wait before they open under a hovering pointer.
const MENU_DELAY: Duration = Duration::from_millis(300);

/// The maximum length of a typed text, in bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// How much of a field is read back, in characters. Longer texts are not compared.
const LONGEST_READ: usize = 4000;

/// Clicks an element.
///
/// # Errors
/// The pointer can't hit the element.
pub(super) async fn click_element(browser: &mut Browser, view: &View, number: u64) -> Result<String, Problem> {
    let aim = at_number(browser, view, number, Purpose::Press).await?;
    press_at(browser, view, &aim).await?;
    Ok(format!("clicked [{number}] {}", aim.text))
}

/// Moves the pointer to an element and leaves it there, for example to open a menu.
///
/// # Errors
/// Neither or both of index and selector are given, or the pointer can't hit the element.
pub(super) async fn hover_element(browser: &mut Browser, view: &View, element: &ElementRef) -> Result<String, Problem> {
    let selector = element.selector.as_deref().filter(|it| !it.trim().is_empty());
    let aim = match (element.index, selector) {
        (Some(number), None) => at_number(browser, view, number, Purpose::Hover).await?,
        (None, Some(selector)) => at_selector(browser, view, selector, Purpose::Hover).await?,
        _ => return Err(Problem::Argument("give either index or selector".to_owned())),
    };
    // Anything that covers the element from here on was opened by the hover itself.
    hover(browser, &view.tab, (aim.x, aim.y)).await?;
    tokio::time::sleep(MENU_DELAY).await;
    let number = browser.numbers.assign((view.nodes[aim.at].document.key, aim.local));
    Ok(format!("the pointer is on [{number}] {}", aim.text))
}

/// Replaces the content of a field with a typed text.
///
/// # Errors
/// The element is not a field, or the pointer can't hit it.
pub(super) async fn input_text(browser: &mut Browser, view: &View, number: u64, text: &str) -> Result<String, Problem> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Problem::Argument(format!("text: must be at most {MAX_TEXT_BYTES} bytes")));
    }
    let (at, local) = element(browser, view, number)?;
    let document = &view.nodes[at].document;
    let numbered = |browser: &mut Browser, it| with_numbers(&mut browser.numbers, document.key, it);
    let prepared = document.call("prepare_text", json!({"number": local})).await;
    let prepared = prepared.map_err(|it| numbered(browser, it))?;
    if prepared["do"] == "set" {
        let set = json!({"number": local, "text": text});
        document.call("set_value", set).await.map_err(|it| numbered(browser, it))?;
    } else if text.is_empty() {
        press(browser, &view.tab, "Backspace").await?;
    } else {
        type_text(browser, &view.tab, text).await?;
    }
    let described = format!("typed {} characters into [{number}]", text.chars().count());
    match document.call("read_value", json!({"number": local})).await {
        Ok(read) => {
            let is_other = text.len() < LONGEST_READ
                && read["value"].as_str().is_some_and(|it| it != text)
                && prepared["kind"] != "editable";
            let value = line(read["value"].as_str().unwrap_or_default(), 100);
            let note = if is_other { format!("; the field changed the text to \"{value}\"") } else { String::new() };
            let moved = if is_other && read["away"] == true {
                "; the focus moved to another element, which received the text"
            } else {
                ""
            };
            Ok(format!("{described} {}{note}{moved}", read["t"].as_str().unwrap_or_default()))
        }
        // The input may have removed the field or the page.
        Err(_) => Ok(described),
    }
}

/// Calls the script function `options` or `choose` on a dropdown. Opens the dropdown first if necessary.
async fn call_dropdown(
    browser: &mut Browser,
    view: &View,
    number: u64,
    (name, arguments): (&str, Value),
) -> Result<(usize, Value), Problem> {
    let (at, local) = element(browser, view, number)?;
    let document = &view.nodes[at].document;
    let mut arguments = arguments;
    arguments["number"] = json!(local);
    let mut answer = document.call(name, arguments.clone()).await;
    if answer.as_ref().is_ok_and(|it| it["open_first"] == true) {
        let aim = at_local(browser, view, (at, local), Purpose::Press).await?;
        press_at(browser, view, &aim).await?;
        let settle = json!({"quiet_ms": 80, "most_ms": OPENS.as_millis() as u64});
        document.call("settle", settle).await?;
        answer = document.call(name, arguments).await;
    }
    let answer = answer.map_err(|it| with_numbers(&mut browser.numbers, document.key, it))?;
    Ok((at, answer))
}

/// Returns the options of a dropdown as the script in the page reports them. Options that are elements get
/// numbers.
///
/// # Errors
/// The element is not a dropdown.
pub(super) async fn options(browser: &mut Browser, view: &View, number: u64) -> Result<Value, Problem> {
    let (at, mut answer) = call_dropdown(browser, view, number, ("options", json!({}))).await?;
    let key = view.nodes[at].document.key;
    for option in answer["options"].as_array_mut().into_iter().flatten() {
        if let Some(n) = option["n"].as_u64().filter(|it| *it > 0) {
            option["n"] = json!(browser.numbers.assign((key, n)));
        }
    }
    Ok(answer)
}

/// Selects an option of a dropdown by its text.
///
/// # Errors
/// No option has this text, or the pointer can't hit the dropdown.
pub(super) async fn select(browser: &mut Browser, view: &View, number: u64, text: &str) -> Result<String, Problem> {
    let (at, answer) = call_dropdown(browser, view, number, ("choose", json!({"text": text}))).await?;
    if let Some(local) = answer["click"].as_u64() {
        let aim = at_local(browser, view, (at, local), Purpose::Press).await?;
        press_at(browser, view, &aim).await?;
    } else if answer["done"] != true {
        return Err(Problem::Argument("the dropdown did not open".to_owned()));
    }
    let chosen = line(answer["chosen"].as_str().unwrap_or(text), 200);
    let note = if answer["changed"] == false { "; it was already selected" } else { "" };
    let others = match answer["others"].as_u64() {
        Some(1) => "; another option has this text; the first enabled one was selected".to_owned(),
        Some(others @ 2..) => format!("; {others} more options have this text; the first enabled option was selected"),
        _ => String::new(),
    };
    Ok(format!("selected \"{chosen}\" in [{number}]{note}{others}"))
}

/// Drags from one element or point to another.
///
/// # Errors
/// The start or the target is incomplete, or the pointer can't hit it.
pub(super) async fn drag_drop(browser: &mut Browser, view: &View, asked: &Drag) -> Result<String, Problem> {
    let point = |x: Option<i64>, y: Option<i64>| Some((x? as f64, y? as f64));
    let from_point = point(asked.coord_source_x, asked.coord_source_y);
    let to_point = point(asked.coord_target_x, asked.coord_target_y);
    let given = |it: &Option<String>| it.clone().filter(|it| !it.trim().is_empty());
    let (from, to) = match (given(&asked.element_source), given(&asked.element_target), from_point, to_point) {
        (Some(source), Some(target), ..) => {
            at_selector(browser, view, &source, Purpose::Press).await?;
            let to = at_selector(browser, view, &target, Purpose::Press).await?;
            // Scrolling the target into view may have moved the source.
            let from = at_selector(browser, view, &source, Purpose::Press).await?;
            let now = at_selector_still(browser, view, &target, to).await?;
            (from, now)
        }
        (None, None, Some(from), Some(to)) => (under(view, from).await?, under(view, to).await?),
        _ => {
            let message = "give either element_source and element_target, or the four coordinates";
            return Err(Problem::Argument(message.to_owned()));
        }
    };
    // Coordinates mean whatever is at that point.
    let is_named = given(&asked.element_source).is_some();
    let expected = if is_named { Some(expect(browser, view, &from).await?) } else { None };
    drag(browser, &view.tab, (from.x, from.y), (to.x, to.y), asked.steps).await?;
    if let Some((view, at)) = expected {
        verify_press(browser, &view, at).await?;
    }
    let place = |aim: &Aim| format!("{} at {},{}", aim.text, aim.x.round(), aim.y.round());
    Ok(format!("dragged {} to {}", place(&from), place(&to)))
}

/// Locates the target again, because scrolling may have moved it. Rejects a target that can't be in view together
/// with the source.
async fn at_selector_still(browser: &mut Browser, view: &View, target: &str, before: Aim) -> Result<Aim, Problem> {
    let document = &view.nodes[before.at].document;
    let arguments = json!({"selector": target, "scroll": false});
    match document.call("locate_selector", arguments).await {
        Ok(_) => at_selector(browser, view, target, Purpose::Press).await,
        Err(problem) if problem.is("outside") => {
            let message = "the source and the target can't be seen at the same time: drag by coordinates in steps";
            Err(Problem::Argument(message.to_owned()))
        }
        Err(_) => Ok(before),
    }
}

/// Returns the element that the pointer would hit at a point of the page. Rejects points outside the viewport.
async fn under(view: &View, (x, y): (f64, f64)) -> Result<Aim, Problem> {
    let info = view.main().call("info", json!({})).await?;
    let (width, height) = (info["viewport"][0].as_f64().unwrap_or(0.0), info["viewport"][1].as_f64().unwrap_or(0.0));
    if !(0.0..width).contains(&x) || !(0.0..height).contains(&y) {
        let message = format!("the point {x},{y} is outside the visible page of {width}x{height} pixels");
        return Err(Problem::Argument(message));
    }
    let found = view.main().call("at", json!({"x": x, "y": y})).await?;
    let text = found["t"].as_str().unwrap_or("the page").to_owned();
    Ok(Aim { x, y, own: (x, y), text, at: 0, local: found["n"].as_u64().unwrap_or(0) })
}

/// Scrolls by a given distance, or by one page.
///
/// # Errors
/// The page does not answer.
pub(super) async fn scroll(view: &View, (is_down, amount): (bool, Option<u64>)) -> Result<String, Problem> {
    let amount = amount.map(|it| it.min(10_000_000) as i64);
    let arguments = match amount {
        Some(pixels) => json!({"dy": if is_down { pixels } else { -pixels }}),
        None => json!({"page": if is_down { "down" } else { "up" }}),
    };
    let scrolled = view.main().call("scroll", arguments).await?;
    let moved = scrolled["moved"].as_f64().unwrap_or(0.0).abs().round();
    let of = scrolled["of"].as_str().unwrap_or("page");
    let end = match (scrolled["end"].as_bool().unwrap_or(false), is_down) {
        (true, true) => "; this is the end",
        (true, false) => "; this is the beginning",
        (false, _) => "",
    };
    Ok(format!("scrolled {of} {} by {moved} pixels{end}", if is_down { "down" } else { "up" }))
}

/// Scrolls to a text on the page or in one of its frames.
///
/// # Errors
/// The text was not found. The error names similar texts.
pub(super) async fn scroll_to_text(browser: &mut Browser, view: &View, text: &str) -> Result<String, Problem> {
    let mut near: Vec<String> = Vec::new();
    for node in &view.nodes {
        let Some(found) = node.call("find_text", json!({"text": text})).await? else { continue };
        if found["found"] == true {
            let count = found["count"].as_u64().unwrap_or(1);
            let at = found["n"].as_u64().filter(|it| *it > 0).map(|it| browser.numbers.assign((node.document.key, it)));
            let at = at.map(|it| format!(" at [{it}]")).unwrap_or_default();
            let numbers: Vec<String> = found["box"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_f64)
                .map(|it| it.to_string())
                .collect();
            let place = if numbers.len() == 4 { format!(" at x,y,w,h: {}", numbers.join(",")) } else { String::new() };
            let times = if count > 1 { format!(", the first of {count}") } else { String::new() };
            return Ok(format!("scrolled to \"{}\"{at}{place}{times}", line(text, 100)));
        }
        near.extend(found["near"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    }
    near.truncate(5);
    let similar = if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(" | ")) };
    let message = format!("the text \"{}\" is not on the page{similar}", line(text, 100));
    Err(Problem::Page { code: "no_match".to_owned(), message, more: json!({"near": near}) })
}
