//! The arguments of a research call.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Deserialize;

use crate::config::research::Limits;

/// The maximum length of a question and of a query, in characters.
const MAX_CHARS: usize = 2000;
const MAX_QUERY_CHARS: usize = 400;

/// The maximum number of initial queries.
const MAX_QUERIES: usize = 10;

/// The research tools, by increasing effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResearchTool {
    Quick,
    Research,
    Comprehensive,
}

impl ResearchTool {
    /// Returns the tool that the `entry` of a manifest names.
    pub(crate) fn from_entry(entry: &str) -> Option<Self> {
        match entry {
            "quick_research" => Some(Self::Quick),
            "research" => Some(Self::Research),
            "comprehensive_research" => Some(Self::Comprehensive),
            _ => None,
        }
    }

    /// Returns the maximum numbers of rounds, pages and quotes.
    fn extent(self) -> (usize, usize, usize) {
        match self {
            Self::Quick => (1, 10, 5),
            Self::Research => (3, 20, 8),
            Self::Comprehensive => (4, 32, 12),
        }
    }
}

/// The arguments as JSON. The manifests use the same names.
#[derive(Debug, Deserialize)]
struct ResearchArguments {
    question: String,
    #[serde(default)]
    topic_focus: String,
    #[serde(default)]
    initial_queries: Vec<String>,
    max_loops: Option<usize>,
    #[serde(default)]
    reasoning_model: String,
}

/// A validated call: the question and its limits.
#[derive(Debug)]
pub(super) struct ResearchTask {
    pub(super) question: String,
    /// A topic to emphasize. May be empty.
    pub(super) focus: String,
    /// The caller's initial queries. May be empty.
    pub(super) queries: Vec<String>,
    /// The lower of the operator's and the tool's limits.
    pub(super) limits: Limits,
    /// The maximum number of quotes in the answer.
    pub(super) quotes: usize,
    /// Whether to keep reading pages up to the limits, even if the question seems answered.
    pub(super) is_thorough: bool,
    /// The requested model. Empty means the configured one.
    pub(super) model: String,
}

impl ResearchTask {
    /// # Errors
    /// The arguments are invalid.
    pub(super) fn read(tool: ResearchTool, input: &[u8], limits: Limits) -> Result<Self, SkillError> {
        let invalid = |message: String| SkillError::new(ErrorCode::InvalidArgument, message);
        let read: ResearchArguments = openskill_proto::json::read(input).map_err(|error| invalid(error.to_string()))?;
        let question = read.question.trim().to_owned();
        if question.is_empty() || question.chars().count() > MAX_CHARS {
            return Err(invalid(format!("question: must be text of 1 to {MAX_CHARS} characters")));
        }
        if read.topic_focus.chars().count() > MAX_CHARS {
            return Err(invalid(format!("topic_focus: must be at most {MAX_CHARS} characters")));
        }
        let is_too_long = |it: &String| it.chars().count() > MAX_QUERY_CHARS;
        if read.initial_queries.len() > MAX_QUERIES || read.initial_queries.iter().any(is_too_long) {
            let message = format!(
                "initial_queries: must be at most {MAX_QUERIES} queries of at most {MAX_QUERY_CHARS} characters each"
            );
            return Err(invalid(message));
        }
        let (loops, pages, quotes) = tool.extent();
        let loops = read.max_loops.unwrap_or(loops);
        if loops == 0 {
            return Err(invalid("max_loops: must be 1 or more".to_owned()));
        }
        let limits = Limits { loops: loops.min(limits.loops), pages: pages.min(limits.pages), ..limits };
        let queries = read.initial_queries.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect();
        Ok(Self {
            question,
            focus: read.topic_focus.trim().to_owned(),
            queries,
            limits,
            quotes,
            is_thorough: tool == ResearchTool::Comprehensive,
            model: read.reasoning_model.trim().chars().take(200).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_s_limits_hold() {
        let limits = Limits { loops: 2, pages: 4, ..Limits::default() };
        let of = |tool, text: &str| ResearchTask::read(tool, text.as_bytes(), limits);
        let task =
            of(ResearchTool::Research, r#"{"question": " why? ", "max_loops": 9, "initial_queries": ["a", " "]}"#)
                .unwrap();
        assert_eq!((task.limits.loops, task.limits.pages), (2, 4));
        assert_eq!((task.question.as_str(), task.queries), ("why?", vec!["a".to_owned()]));
        assert_eq!(of(ResearchTool::Quick, r#"{"question": "why?"}"#).unwrap().limits.loops, 1);
        assert_eq!(of(ResearchTool::Research, r#"{"question": "x", "max_loops": 1.0}"#).unwrap().limits.loops, 1);
        for bad in [
            r#"{"question": " "}"#,
            r#"{"question": "x", "max_loops": 0}"#,
            r#"{"question": "x", "max_loops": 1.5}"#,
            "{}",
        ] {
            assert_eq!(of(ResearchTool::Research, bad).unwrap_err().code(), ErrorCode::InvalidArgument, "{bad}");
        }
    }
}
