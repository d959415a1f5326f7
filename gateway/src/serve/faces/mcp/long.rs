//! Results that are too long to send at once. Sends the beginning and a link, and serves the rest in ranges.

use std::time::Instant;

use serde_json::{Value, json};

use super::jsonrpc::{RpcError, invalid_params};
use crate::call::principal::{GovernedSkill, Principal};
use crate::catalog::entry::Entry;
use crate::gateway::Gateway;
use crate::mcp::owner::Owner;
use crate::mcp::revision::Revision;

/// The URI prefix of long results as resources.
pub(super) const RESULTS: &str = "openskill://results/";

/// The maximum size of a range, in bytes.
const MAX_RANGE: usize = 1024 * 1024;

/// Truncates the content blocks of a result to the text budget. None if they fit. `content` is a JSON list of
/// blocks, produced by the skill of `entry`.
pub(super) fn cut(
    gateway: &Gateway,
    owner: &Owner,
    entry: Option<&Entry>,
    content: &str,
    revision: Revision,
) -> Option<String> {
    let budget = gateway.config.mcp_result_bytes;
    // JSON is never shorter than the text that it encodes.
    if content.len() <= budget {
        return None;
    }
    let mut blocks: Vec<Value> = serde_json::from_str(content).ok()?;
    let whole: Vec<&str> = blocks.iter().filter_map(text_of).collect();
    let whole = whole.join("\n");
    if whole.len() <= budget {
        return None;
    }
    let is_json = whole.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(&whole).is_ok();
    let (media_type, size) = (if is_json { "application/json" } else { "text/plain" }, whole.len());
    let skill = entry.map(|it| GovernedSkill::from(&it.skill)).unwrap_or_default();
    let uri = gateway.mcp.results.keep(owner.clone(), skill, media_type, whole, Instant::now());
    let uri = uri.map(|id| format!("{RESULTS}{id}"));
    let shown = shorten(&mut blocks, budget);
    blocks.extend(links(uri.as_deref(), media_type, shown, size, revision));
    Some(Value::from(blocks).to_string())
}

fn text_of(block: &Value) -> Option<&str> {
    block.get("text").filter(|_| block.get("type").is_some_and(|it| it == "text"))?.as_str()
}

/// Truncates the texts after `budget` bytes in total. Returns how many bytes of the full text remain.
fn shorten(blocks: &mut Vec<Value>, budget: usize) -> usize {
    let (mut left, mut shown) = (budget, 0);
    blocks.retain_mut(|block| {
        let Some(text) = text_of(block) else { return true };
        let end = text.floor_char_boundary(left);
        let head = text.get(..end).unwrap_or_default().to_owned();
        if left > 0 {
            // One more for the newline that separates two texts in the full text.
            shown += end + usize::from(shown > 0);
        }
        left = if end < text.len() { 0 } else { left - end };
        block["text"] = head.into();
        end > 0
    });
    shown
}

/// Builds the blocks that state how much is missing, and where to read it.
fn links(
    uri: Option<&str>,
    media_type: &str,
    shown: usize,
    size: usize,
    revision: Revision,
) -> impl Iterator<Item = Value> + use<> {
    let note = match uri {
        Some(uri) => format!(
            "These are the first {shown} of {size} bytes. Read on with resources/read: {uri}?offset={shown}&length=65536"
        ),
        None => format!("These are the first {shown} of {size} bytes. The rest is too long to be kept."),
    };
    let link = uri.filter(|_| revision >= Revision::V2025_06_18).map(|uri| {
        let description = "The whole result. Append ?offset=…&length=…, in bytes, for a part of it.";
        json!({
            "type": "resource_link", "uri": uri, "name": "result", "description": description,
            "mimeType": media_type, "size": size,
        })
    });
    [json!({ "type": "text", "text": note })].into_iter().chain(link)
}

/// Reads a range of a long result, for `resources/read`. `rest` is the URI after [`RESULTS`]. Returns None if the
/// owner has no such result, or if the policy of `principal` no longer allows the skill.
///
/// # Errors
/// The range is invalid.
pub(super) fn read(
    gateway: &Gateway,
    principal: &Principal,
    owner: &Owner,
    uri: &str,
    rest: &str,
) -> Result<Option<Value>, RpcError> {
    let (id, query) = rest.split_once('?').unwrap_or((rest, ""));
    let found = gateway.mcp.results.get(owner, id, Instant::now());
    let Some(long) = found.filter(|it| principal.may_have(&it.skill)) else { return Ok(None) };
    let (offset, length) = range(query)?;
    let text = &long.text;
    let begin = text.floor_char_boundary(offset);
    let end = text.floor_char_boundary(begin.saturating_add(length)).max(begin);
    let part = text.get(begin..end).unwrap_or_default();
    Ok(Some(json!({
        "uri": uri,
        "mimeType": long.media_type,
        "text": part,
        "_meta": { "openskill.dev/range": { "offset": begin, "length": part.len(), "total": text.len() } },
    })))
}

/// Parses offset and length, in bytes.
fn range(query: &str) -> Result<(usize, usize), RpcError> {
    let (mut offset, mut length) = (0, MAX_RANGE);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let wrong = |_| invalid_params(format!("{name} in the uri is not a number of bytes"));
        let number = value.parse::<usize>().map_err(wrong)?;
        match &*name {
            "offset" => offset = number,
            "length" => length = number.min(MAX_RANGE),
            _ => return Err(invalid_params("the uri may contain only offset and length")),
        }
    }
    Ok((offset, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_the_budget_ends_and_other_blocks_stay() {
        let blocks = || {
            vec![
                json!({"type": "text", "text": "äbc"}),
                json!({"type": "image", "data": "AA=="}),
                json!({"type": "text", "text": "def"}),
            ]
        };
        for (budget, shown, texts) in [
            (100, 8, &["äbc", "def"][..]),
            (5, 6, &["äbc", "d"]),
            (4, 4, &["äbc"]),
            (3, 3, &["äb"]),
            (2, 2, &["ä"]),
            (1, 0, &[]),
        ] {
            let mut cut = blocks();
            assert_eq!(shorten(&mut cut, budget), shown, "{budget}");
            assert_eq!(cut.iter().filter_map(text_of).collect::<Vec<_>>(), texts, "{budget}");
            assert_eq!(cut.len(), texts.len() + 1, "{budget}");
        }
    }

    #[test]
    fn a_range_is_bounded_and_says_nothing_else() {
        assert_eq!(range("").unwrap(), (0, MAX_RANGE));
        assert_eq!(range("offset=5&length=7").unwrap(), (5, 7));
        assert_eq!(range("length=99999999999").unwrap().1, MAX_RANGE);
        for wrong in ["offset=-1", "offset=x", "end=5"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
