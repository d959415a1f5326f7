//! The browser tools and their arguments.

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as ValueError, StrDeserializer};

/// A tool, identified by the `entry` of its manifest: `browser_` and the name of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Tool {
    Page(PageTool),
    End(ClosingTool),
}

/// A tool that needs a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum PageTool {
    Act(PageAction),
    Load(PageLoad),
    Draw(PageDrawing),
    Read(PageReading),
}

/// A tool that works on the current page and may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageAction {
    ClickElement,
    DragDrop,
    HoverElement,
    InputText,
    ScrollDown,
    ScrollToText,
    ScrollUp,
    SelectDropdownOption,
    SendKeys,
    Wait,
}

/// A tool that loads another page, regardless of the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageLoad {
    CloseTab,
    GoBack,
    Navigate,
    OpenTab,
    SearchGoogle,
    SwitchTab,
}

/// A tool that saves what the page looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageDrawing {
    SavePdf,
    Screenshot,
}

/// A tool that reads the page without changing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageReading {
    ExtractContent,
    GetAxTree,
    GetContent,
    GetCurrentUrl,
    GetDropdownOptions,
    GetPageInfo,
}

/// A tool that ends the work with the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClosingTool {
    CloseSession,
    Done,
}

impl Tool {
    /// Returns the tool with this name.
    pub(crate) fn from_entry(entry: &str) -> Option<Self> {
        let name: StrDeserializer<'_, ValueError> = entry.strip_prefix("browser_")?.into_deserializer();
        Self::deserialize(name).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_manifests_are_tools() {
        let page = |tool| Some(Tool::Page(tool));
        for (entry, tool) in [
            ("browser_click_element", page(PageTool::Act(PageAction::ClickElement))),
            ("browser_select_dropdown_option", page(PageTool::Act(PageAction::SelectDropdownOption))),
            ("browser_search_google", page(PageTool::Load(PageLoad::SearchGoogle))),
            ("browser_save_pdf", page(PageTool::Draw(PageDrawing::SavePdf))),
            ("browser_get_ax_tree", page(PageTool::Read(PageReading::GetAxTree))),
            ("browser_close_session", Some(Tool::End(ClosingTool::CloseSession))),
            ("browser_done", Some(Tool::End(ClosingTool::Done))),
            ("click_element", None),
            ("browser_ClickElement", None),
            ("browser_", None),
        ] {
            assert_eq!(Tool::from_entry(entry), tool, "{entry}");
        }
    }
}
