//! stub
use crate::entry::Question;
use openskill_proto::v1;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnTool {
    AskUser,
    ReadResult,
    ToolSearch,
}
impl OwnTool {
    pub fn name(self) -> &'static str {
        match self {
            Self::AskUser => "ask_user",
            Self::ReadResult => "read_result",
            Self::ToolSearch => "tool_search",
        }
    }
    pub fn of_name(n: &str) -> Option<Self> {
        [Self::AskUser, Self::ReadResult, Self::ToolSearch].into_iter().find(|t| t.name() == n)
    }
    pub fn definition(self, _d: v1::Dialect) -> String {
        format!("{{\"name\":\"{}\"}}", self.name())
    }
}
#[derive(serde::Deserialize)]
struct A {
    questions: Vec<Question>,
}
pub fn questions(a: &str) -> Result<Vec<Question>, String> {
    serde_json::from_str::<A>(a).map(|a| a.questions).map_err(|e| e.to_string())
}
pub fn answers(q: &[Question], a: &v1::UserAnswers) -> Result<Vec<(String, String, bool)>, String> {
    Ok(a.answers
        .iter()
        .map(|x| {
            (
                x.id.clone(),
                x.answer.clone(),
                q.iter().any(|q| q.id == x.id && q.kind == crate::entry::QuestionKind::Secret),
            )
        })
        .collect())
}
pub fn from_schema(_s: &str) -> Vec<Question> {
    Vec::new()
}
pub fn to_content(_s: &str, _a: &[(String, String)]) -> Result<String, String> {
    Ok("{}".into())
}
