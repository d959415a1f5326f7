//! The result of a tool, as its server wrote it. Pure.

use rmcp::model::ContentBlock;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A result.
pub(super) struct ToolResult<'a> {
    pub(super) content: Vec<Block<'a>>,
    /// None also if it is null.
    pub(super) structured: Option<&'a RawValue>,
    pub(super) is_error: bool,
}

/// A block of a result.
pub(super) struct Block<'a> {
    pub(super) json: &'a RawValue,
    /// None if the protocol has no such type: it is passed on all the same.
    pub(super) known: Option<ContentBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    is_error: Option<bool>,
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    fn read(json: &'a str) -> Option<Self> {
        let fields: Self = serde_json::from_str(json).ok()?;
        let is_complete = fields.result_type.is_none_or(|it| it.get() == "\"complete\"");
        (is_complete && (fields.content.is_some() || fields.structured_content.is_some())).then_some(fields)
    }
}

impl<'a> ToolResult<'a> {
    /// Whether a result is that of a tool, and not of another request.
    pub(super) fn is_one(json: &str) -> bool {
        Fields::read(json).is_some()
    }

    /// Reads a result. None if it is not valid.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        let fields = Fields::read(json)?;
        let content = fields.content.unwrap_or_default().into_iter().map(Block::read).collect::<Option<_>>()?;
        Some(Self { content, structured: fields.structured_content, is_error: fields.is_error == Some(true) })
    }
}

impl<'a> Block<'a> {
    fn read(json: &'a RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(rename = "type")]
            name: &'a str,
        }
        let known = serde_json::from_str(json.get()).ok();
        let is_foreign = || {
            let typed = serde_json::from_str::<Typed<'_>>(json.get());
            typed.is_ok_and(|it| !["text", "image", "audio", "resource", "resource_link"].contains(&it.name))
        };
        (known.is_some() || is_foreign()).then_some(Self { json, known })
    }
}
