//! The browser tools and their arguments.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A tool, identified by the `entry` of its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Back,
    Click,
    CloseSession,
    CloseTab,
    Content,
    Done,
    Drag,
    Dropdown,
    Extract,
    Hover,
    Info,
    Keys,
    Navigate,
    OpenTab,
    Pdf,
    Screenshot,
    ScrollDown,
    ScrollToText,
    ScrollUp,
    Search,
    Select,
    SwitchTab,
    Tree,
    Type,
    Url,
    Wait,
}

/// All tools by name.
const TOOLS: [(&str, Tool); 26] = [
    ("browser_click_element", Tool::Click),
    ("browser_close_session", Tool::CloseSession),
    ("browser_close_tab", Tool::CloseTab),
    ("browser_done", Tool::Done),
    ("browser_drag_drop", Tool::Drag),
    ("browser_extract_content", Tool::Extract),
    ("browser_get_ax_tree", Tool::Tree),
    ("browser_get_content", Tool::Content),
    ("browser_get_current_url", Tool::Url),
    ("browser_get_dropdown_options", Tool::Dropdown),
    ("browser_get_page_info", Tool::Info),
    ("browser_go_back", Tool::Back),
    ("browser_hover_element", Tool::Hover),
    ("browser_input_text", Tool::Type),
    ("browser_navigate", Tool::Navigate),
    ("browser_open_tab", Tool::OpenTab),
    ("browser_save_pdf", Tool::Pdf),
    ("browser_screenshot", Tool::Screenshot),
    ("browser_scroll_down", Tool::ScrollDown),
    ("browser_scroll_to_text", Tool::ScrollToText),
    ("browser_scroll_up", Tool::ScrollUp),
    ("browser_search_google", Tool::Search),
    ("browser_select_dropdown_option", Tool::Select),
    ("browser_send_keys", Tool::Keys),
    ("browser_switch_tab", Tool::SwitchTab),
    ("browser_wait", Tool::Wait),
];

impl Tool {
    /// Returns the tool with this name.
    pub(crate) fn from_entry(entry: &str) -> Option<Self> {
        TOOLS.iter().find(|(name, _)| *name == entry).map(|(_, tool)| *tool)
    }

    /// Returns whether the tool works on the current page and may change it.
    pub(super) fn acts_on_page(self) -> bool {
        matches!(
            self,
            Self::Click
                | Self::Drag
                | Self::Hover
                | Self::Keys
                | Self::ScrollDown
                | Self::ScrollToText
                | Self::ScrollUp
                | Self::Select
                | Self::Type
                | Self::Wait
        )
    }

    /// Returns whether the tool loads another page, regardless of the current one.
    pub(super) fn loads(self) -> bool {
        matches!(self, Self::Back | Self::CloseTab | Self::Navigate | Self::OpenTab | Self::Search | Self::SwitchTab)
    }
}

/// An element number.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    pub(super) index: u64,
}

/// An element number, and the text to enter or select.
#[derive(Debug, Deserialize)]
pub(super) struct IndexText {
    pub(super) index: u64,
    pub(super) text: String,
}

/// An element, identified by its number or a CSS selector.
#[derive(Debug, Deserialize)]
pub(super) struct ElementRef {
    pub(super) index: Option<u64>,
    pub(super) selector: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PageId {
    pub(super) page_id: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Address {
    pub(super) url: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Text {
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Query {
    pub(super) query: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Keys {
    pub(super) keys: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Amount {
    pub(super) amount: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Seconds {
    #[serde(default = "three")]
    pub(super) seconds: f64,
}

fn three() -> f64 {
    3.0
}

#[derive(Debug, Deserialize)]
pub(super) struct Number {
    pub(super) number_of_elements: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Selector {
    pub(super) selector: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Goal {
    pub(super) goal: String,
    #[serde(default)]
    pub(super) include_links: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct FileName {
    pub(super) filename: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Done {
    pub(super) text: String,
    pub(super) success: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Drag {
    pub(super) element_source: Option<String>,
    pub(super) element_target: Option<String>,
    pub(super) coord_source_x: Option<i64>,
    pub(super) coord_source_y: Option<i64>,
    pub(super) coord_target_x: Option<i64>,
    pub(super) coord_target_y: Option<i64>,
    #[serde(default = "ten")]
    pub(super) steps: u64,
}

fn ten() -> u64 {
    10
}

/// Parses the arguments of a tool.
///
/// # Errors
/// The arguments are invalid for this tool. The gateway has normally validated them already.
pub(super) fn read<T: DeserializeOwned>(input: &[u8]) -> Result<T, SkillError> {
    openskill_proto::json::read(input).map_err(|error| SkillError::new(ErrorCode::InvalidArgument, error.to_string()))
}
