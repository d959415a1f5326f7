//! The keyboard: the names of keys and shortcuts, and the events that they produce.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use super::instance::Browser;
use super::problem::Problem;
use super::tabs::Tab;

/// The maximum number of keys in a shortcut.
const MOST_KEYS: usize = 5;

/// The maximum number of characters at the end of a text that are typed key by key. Everything before them is
/// inserted at once.
const MOST_TYPED: usize = 64;

const ALT: u32 = 1;
const CONTROL: u32 = 2;
const META: u32 = 4;
const SHIFT: u32 = 8;

/// A key: its value, physical position, legacy key code, and the text that it types.
#[derive(Debug, Clone, Deserialize)]
struct Key {
    key: String,
    code: String,
    number: u32,
    text: String,
}

/// A US keyboard.
#[derive(Debug, Default, Deserialize)]
struct Keyboard {
    /// Keys with the values of the UI Events standard.
    named: Vec<Key>,
    /// Alternative key names that people and models use, in lower case.
    aliases: HashMap<String, String>,
    /// Keys that type symbols: without Shift, with Shift, code, key code.
    signs: Vec<(char, char, String, u32)>,
}

static KEYBOARD: LazyLock<Keyboard> =
    LazyLock::new(|| serde_json::from_str(include_str!("keys.json")).unwrap_or_default());

fn key_by_name(name: &str) -> Option<Key> {
    let name = KEYBOARD.aliases.get(&name.to_ascii_lowercase()).map_or(name, String::as_str);
    if let Some(key) = KEYBOARD.named.iter().find(|it| name.eq_ignore_ascii_case(&it.key)) {
        return Some(key.clone());
    }
    let function =
        name.strip_prefix(['F', 'f']).and_then(|it| it.parse::<u32>().ok()).filter(|it| (1..=24).contains(it))?;
    Some(Key { key: format!("F{function}"), code: format!("F{function}"), number: 111 + function, text: String::new() })
}

fn key_for_character(character: char, shift: bool) -> Key {
    let key = |it: char| it.to_string();
    let sign = KEYBOARD.signs.iter().find(|(plain, shifted, ..)| [*plain, *shifted].contains(&character));
    if let Some((plain, shifted, code, number)) = sign {
        let typed = if shift && character == *plain { *shifted } else { character };
        return Key { key: key(typed), code: code.clone(), number: *number, text: key(typed) };
    }
    if character.is_ascii_alphabetic() {
        let upper = character.to_ascii_uppercase();
        let typed = if shift { upper } else { character };
        return Key { key: key(typed), code: format!("Key{upper}"), number: u32::from(upper), text: key(typed) };
    }
    Key { key: key(character), code: String::new(), number: 0, text: key(character) }
}

fn modifier(key: &Key) -> u32 {
    match key.key.as_str() {
        "Alt" => ALT,
        "Control" => CONTROL,
        "Meta" => META,
        "Shift" => SHIFT,
        _ => 0,
    }
}

/// Parses a shortcut such as `Control+Shift+t` into its keys, in the order in which they are pressed.
fn parse(written: &str) -> Result<Vec<Key>, Problem> {
    let wrong = |part: &str| {
        Problem::Argument(format!(
            "keys: '{}' is not a key; give keys such as Enter, Escape, ArrowDown or Control+c, or use browser_input_text for text",
            super::wording::line(part, 40)
        ))
    };
    let trimmed = if written.trim().is_empty() && !written.is_empty() { " " } else { written.trim() };
    // A trailing plus sign is the plus key itself.
    let (names, plus) = match trimmed.strip_suffix('+') {
        Some(rest) if rest.is_empty() || rest.ends_with('+') => (rest.trim_end_matches('+'), true),
        _ => (trimmed, false),
    };
    let mut parts: Vec<&str> = names.split('+').filter(|it| !it.is_empty() || !plus).collect();
    if plus {
        parts.push("+");
    }
    if parts.len() > MOST_KEYS {
        return Err(wrong(written));
    }
    let mut keys: Vec<Key> = Vec::new();
    for part in parts {
        let shift = keys.iter().any(|it| modifier(it) == SHIFT);
        let part = if part.trim().is_empty() { part } else { part.trim() };
        let mut characters = part.chars();
        let key = match (characters.next(), characters.next()) {
            (Some(' '), None) => key_by_name("Space"),
            (Some(character), None) => Some(key_for_character(character, shift)),
            (Some(_), Some(_)) => key_by_name(part),
            (None, _) => None,
        };
        keys.push(key.ok_or_else(|| wrong(part))?);
    }
    if keys.is_empty() { Err(wrong(written)) } else { Ok(keys) }
}

/// Returns the events of a shortcut: the keys are pressed in order and released in reverse order.
fn events(keys: &[Key]) -> Vec<Value> {
    let mut events = Vec::new();
    let mut modifiers = 0;
    let event = |kind: &str, key: &Key, modifiers: u32, text: &str| {
        let Key { key, code, number, .. } = key;
        let mut event = json!({
            "type": kind, "modifiers": modifiers, "key": key, "code": code, "windowsVirtualKeyCode": number,
        });
        if !text.is_empty() {
            event["text"] = json!(text);
            event["unmodifiedText"] = json!(text);
        }
        event
    };
    for key in keys {
        modifiers |= modifier(key);
        // Combined with one of these modifiers, a key is a command and types no text.
        let types = modifiers & (ALT | CONTROL | META) == 0 && !key.text.is_empty();
        let (kind, text) = if types { ("keyDown", key.text.as_str()) } else { ("rawKeyDown", "") };
        events.push(event(kind, key, modifiers, text));
    }
    for key in keys.iter().rev() {
        modifiers &= !modifier(key);
        events.push(event("keyUp", key, modifiers, ""));
    }
    events
}

/// Presses a key or a shortcut.
///
/// # Errors
/// The text contains an unknown key name, or the page does not answer.
pub(super) async fn press(browser: &Browser, tab: &Tab, written: &str) -> Result<(), Problem> {
    let events = events(&parse(written)?);
    send(browser, tab, events.into_iter().map(|it| ("Input.dispatchKeyEvent", it))).await
}

/// Types a text into the focused element.
///
/// # Errors
/// The page does not answer.
pub(super) async fn type_text(browser: &Browser, tab: &Tab, text: &str) -> Result<(), Problem> {
    send(browser, tab, strokes(text)).await
}

/// Returns the events that type a text. Line breaks are inserted instead of typed, because Enter would submit a
/// form or move the focus.
fn strokes(text: &str) -> Vec<(&'static str, Value)> {
    let start = text.char_indices().rev().nth(MOST_TYPED - 1).map_or(0, |(at, _)| at);
    let (inserted, typed) = text.split_at(start);
    let insert = |text: &str| ("Input.insertText", json!({"text": text}));
    let mut strokes = Vec::new();
    if !inserted.is_empty() {
        strokes.push(insert(inserted));
    }
    for character in typed.chars() {
        if character.is_control() {
            strokes.push(insert(&character.to_string()));
            continue;
        }
        let key = if character == ' ' { key_by_name("Space") } else { None };
        let keys = [key.unwrap_or_else(|| key_for_character(character, false))];
        strokes.extend(events(&keys).into_iter().map(|it| ("Input.dispatchKeyEvent", it)));
    }
    strokes
}

async fn send(
    browser: &Browser,
    tab: &Tab,
    strokes: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<(), Problem> {
    for (method, stroke) in strokes {
        match browser.call_page(&tab.session, method, stroke).await {
            Ok(_) => {}
            // The previous key press closed or replaced the page.
            Err(Problem::Call(crate::browser::cdp::client::CallError::Refused(_))) => return Ok(()),
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(written: &str) -> Vec<(String, u64)> {
        let events = events(&parse(written).unwrap());
        let down = events.iter().filter(|it| it["type"] != "keyUp");
        down.map(|it| (it["key"].as_str().unwrap().to_owned(), it["modifiers"].as_u64().unwrap())).collect()
    }

    fn typed(written: &str) -> String {
        events(&parse(written).unwrap()).iter().filter_map(|it| it["text"].as_str()).collect()
    }

    #[test]
    fn shortcuts_are_keys_with_those_before_them_held() {
        assert_eq!(down("Control+c"), [("Control".to_owned(), 2), ("c".to_owned(), 2)]);
        assert_eq!(down("ctrl+shift+T"), [("Control".to_owned(), 2), ("Shift".to_owned(), 10), ("T".to_owned(), 10)]);
        assert_eq!(down("esc"), [("Escape".to_owned(), 0)]);
        assert_eq!(down("Control++").last().unwrap().0, "+");
        assert_eq!(down("+"), [("+".to_owned(), 0)]);
        assert_eq!(down("f5"), [("F5".to_owned(), 0)]);
        assert_eq!(down(" "), down("Space"));
    }

    #[test]
    fn only_keys_without_a_command_type() {
        assert_eq!([typed("a"), typed("Shift+a"), typed("Shift+1"), typed("Enter")], ["a", "A", "!", "\r"]);
        assert_eq!([typed("Control+a"), typed("Tab"), typed("ArrowUp")], [""; 3]);
        assert_eq!(typed("ß"), "ß");
    }

    #[test]
    fn the_end_of_a_text_is_typed_key_by_key_and_line_breaks_are_inserted() {
        let told = |text: &str| -> Vec<String> {
            let one = |(method, it): &(&str, Value)| match it["type"].as_str() {
                Some(kind) => format!("{kind} {}", it["key"].as_str().unwrap()),
                None => format!("{method} {:?}", it["text"].as_str().unwrap()),
            };
            strokes(text).iter().map(one).collect()
        };
        let line_break = "Input.insertText \"\\n\"";
        assert_eq!(told("aß\n "), ["keyDown a", "keyUp a", "keyDown ß", "keyUp ß", line_break, "keyDown  ", "keyUp  "]);
        let long = told(&"é".repeat(MOST_TYPED + 2));
        assert_eq!((long.len(), long[0].as_str()), (1 + 2 * MOST_TYPED, "Input.insertText \"éé\""));
        assert!(told("").is_empty());
    }

    #[test]
    fn what_is_no_key_is_refused_with_what_is() {
        for written in ["hello", "Control+", "Control+hello", "", "a+b+c+d+e+f", "F99"] {
            let refused = parse(written).unwrap_err().to_string();
            assert!(refused.contains("browser_input_text"), "{written}: {refused}");
        }
    }

    #[test]
    fn keys_go_up_in_the_opposite_order() {
        let events = events(&parse("Control+Shift+k").unwrap());
        let ups: Vec<_> = events.iter().filter(|it| it["type"] == "keyUp").map(|it| it["key"].clone()).collect();
        assert_eq!(ups, ["K", "Shift", "Control"]);
        assert_eq!(events.last().unwrap()["modifiers"], 0);
    }
}
