//! Indents JSON text without parsing its values, so that numbers keep their notation.

use openskill_telemetry::log::text::{is_hidden, write_json};

/// Indents valid JSON by two spaces per level, and escapes hidden characters in strings. The output for invalid
/// JSON is malformed but safe to show.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                out.push('"');
                string(&mut characters, &mut out);
            }
            '{' | '[' => {
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                out.push(character);
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ if character.is_ascii_whitespace() => {}
            _ => out.push(character),
        }
    }
    out.push('\n');
    out
}

/// Copies the rest of a string, including the closing quote.
fn string(characters: &mut impl Iterator<Item = char>, out: &mut String) {
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                out.push('\\');
                out.extend(characters.next());
            }
            '"' => return out.push('"'),
            // Writing to a String cannot fail.
            _ if is_hidden(character) => {
                let _ = write_json(out, character);
            }
            _ => out.push(character),
        }
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn values_are_indented_and_not_changed() {
        let text = r#"{"a":[1,2.50,{}],"b" : [ ],"n":123456789012345678901234567890,"s":"x: {\"y\", }"}"#;
        let expected = "{\n  \"a\": [\n    1,\n    2.50,\n    {}\n  ],\n  \"b\": [],\n  \"n\": 123456789012345678901234567890,\n  \
                        \"s\": \"x: {\\\"y\\\", }\"\n}\n";
        assert_eq!(pretty(text), expected);
    }

    #[test]
    fn hidden_characters_are_escaped() {
        let expected = "\"a\\u009b31m\\u007f\\u202e\\udb40\\udc41\"\n";
        assert_eq!(pretty("\"a\u{9b}31m\u{7f}\u{202e}\u{e0041}\""), expected);
    }
}
