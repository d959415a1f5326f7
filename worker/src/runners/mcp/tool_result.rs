//! A tool's result, as slices of the server's text. Pure.

use rmcp::model::ContentBlock;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A result that borrows from the server's text.
pub(super) struct ToolResult<'a> {
    pub(super) content: Vec<Block<'a>>,
    /// `None` if the field is missing or null.
    pub(super) structured: Option<&'a RawValue>,
    pub(super) is_error: bool,
}

/// A content block, in the server's text and parsed.
pub(super) struct Block<'a> {
    pub(super) json: &'a RawValue,
    /// `None` if the protocol does not define this type. The block is passed on unchanged.
    pub(super) known: Option<ContentBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultFields<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    is_error: Option<bool>,
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
}

impl<'a> ResultFields<'a> {
    fn read(json: &'a str) -> Option<Self> {
        let fields: Self = serde_json::from_str(json).ok()?;
        let is_complete = fields.result_type.is_none_or(|it| it.get() == "\"complete\"");
        (is_complete && (fields.content.is_some() || fields.structured_content.is_some())).then_some(fields)
    }
}

impl<'a> ToolResult<'a> {
    /// Returns whether this is a tool's result rather than that of another request.
    pub(super) fn is_one(json: &str) -> bool {
        ResultFields::read(json).is_some()
    }

    /// Parses a result. Returns `None` if it is invalid.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        let fields = ResultFields::read(json)?;
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
