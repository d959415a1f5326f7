//! stub
use super::own_tools::OwnTool;
use openskill_proto::v1;
pub struct Facts<'a> {
    pub instructions: &'a str,
    pub disabled: &'a [v1::DisabledTool],
    pub mode: crate::entry::Mode,
    pub own_tools: &'a [OwnTool],
    pub limit: Option<&'a str>,
}
pub fn system(_f: &Facts<'_>) -> String {
    String::new()
}
