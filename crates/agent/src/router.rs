//! stub
use crate::entry::Routing;
use openskill_proto::v1;
pub struct RoutedCall {
    pub skill_id: String,
    pub arguments: String,
}
pub struct Choice {
    pub routing: Routing,
    pub call: Option<RoutedCall>,
    pub text: String,
}
pub fn route(t: &str, _s: &[v1::Skill]) -> Choice {
    Choice {
        routing: Routing { skill_id: "echo".into(), reason: "x".into() },
        call: Some(RoutedCall { skill_id: "echo".into(), arguments: serde_json::json!({"text":t}).to_string() }),
        text: String::new(),
    }
}
