//! What a caller asks for.

use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Deserialize;

use crate::config::research::Limits;

/// The longest question and the longest query, in characters.
const MAX_CHARS: usize = 2000;
const MAX_QUERY_CHARS: usize = 400;

/// The most queries to begin with.
const MAX_QUERIES: usize = 10;

/// The three tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runners::in_process) enum Tool {
    Quick,
    Research,
    Comprehensive,
}

impl Tool {
    /// By the `entry` of a manifest.
    pub(in crate::runners::in_process) fn of(entry: &str) -> Option<Self> {
        match entry {
            "quick_research" => Some(Self::Quick),
            "research" => Some(Self::Research),
            "comprehensive_research" => Some(Self::Comprehensive),
            _ => None,
        }
    }

    /// Rounds, pages and quotes.
    fn extent(self) -> (usize, usize, usize) {
        match self {
            Self::Quick => (1, 10, 5),
            Self::Research => (3, 20, 8),
            Self::Comprehensive => (4, 32, 12),
        }
    }
}

/// The arguments of a call. The manifests have the same names.
#[derive(Debug, Deserialize)]
struct Arguments {
    question: String,
    #[serde(default)]
    topic_focus: String,
    #[serde(default)]
    initial_queries: Vec<String>,
    max_loops: Option<usize>,
    #[serde(default)]
    reasoning_model: String,
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) question: String,
    /// May be empty.
    pub(super) focus: String,
    /// The queries to begin with; may be empty.
    pub(super) queries: Vec<String>,
    /// Those of the operator, and of the tool.
    pub(super) limits: Limits,
    /// The most quotes of the answer.
    pub(super) quotes: usize,
    /// Pages are read although nothing is missing, as far as the limits go.
    pub(super) is_thorough: bool,
    /// The name of a model; may be empty.
    pub(super) model: String,
}

impl Task {
    /// # Errors
    /// The arguments are invalid.
    pub(super) fn read(tool: Tool, input: &[u8], limits: Limits) -> Result<Self, SkillError> {
        let invalid = |message: String| SkillError::new(ErrorCode::InvalidArgument, message);
        let read: Arguments = openskill_proto::json::read(input).map_err(|error| invalid(error.to_string()))?;
        let question = read.question.trim().to_owned();
        if question.is_empty() || question.chars().count() > MAX_CHARS {
            return Err(invalid(format!("question: must be text of 1 to {MAX_CHARS} characters")));
        }
        if read.topic_focus.chars().count() > MAX_CHARS {
            return Err(invalid(format!("topic_focus: must be at most {MAX_CHARS} characters")));
        }
        let is_too_long = |it: &String| it.chars().count() > MAX_QUERY_CHARS;
        if read.initial_queries.len() > MAX_QUERIES || read.initial_queries.iter().any(is_too_long) {
            let message =
                format!("initial_queries: at most {MAX_QUERIES}, each of at most {MAX_QUERY_CHARS} characters");
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
            is_thorough: tool == Tool::Comprehensive,
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
        let of = |tool, text: &str| Task::read(tool, text.as_bytes(), limits);
        let task =
            of(Tool::Research, r#"{"question": " why? ", "max_loops": 9, "initial_queries": ["a", " "]}"#).unwrap();
        assert_eq!((task.limits.loops, task.limits.pages), (2, 4));
        assert_eq!((task.question.as_str(), task.queries), ("why?", vec!["a".to_owned()]));
        assert_eq!(of(Tool::Quick, r#"{"question": "why?"}"#).unwrap().limits.loops, 1);
        assert_eq!(of(Tool::Research, r#"{"question": "x", "max_loops": 1.0}"#).unwrap().limits.loops, 1);
        for bad in [
            r#"{"question": " "}"#,
            r#"{"question": "x", "max_loops": 0}"#,
            r#"{"question": "x", "max_loops": 1.5}"#,
            "{}",
        ] {
            assert_eq!(of(Tool::Research, bad).unwrap_err().code(), ErrorCode::InvalidArgument, "{bad}");
        }
    }
}
