//! The arguments of a research call.

use openskill_proto::v1::SkillError;
use serde::Deserialize;

use crate::call::{invalid_argument, read_arguments};
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
        let read: ResearchArguments = read_arguments(input)?;
        let question = read.question.trim().to_owned();
        if question.is_empty() || question.chars().count() > MAX_CHARS {
            return Err(invalid_argument(format!("question: must be text of 1 to {MAX_CHARS} characters")));
        }
        if read.topic_focus.chars().count() > MAX_CHARS {
            return Err(invalid_argument(format!("topic_focus: must be at most {MAX_CHARS} characters")));
        }
        let is_too_long = |it: &String| it.chars().count() > MAX_QUERY_CHARS;
        if read.initial_queries.len() > MAX_QUERIES || read.initial_queries.iter().any(is_too_long) {
            let message = format!(
                "initial_queries: must be at most {MAX_QUERIES} queries of at most {MAX_QUERY_CHARS} characters each"
            );
            return Err(invalid_argument(message));
        }
        let (loops, pages, quotes) = tool.extent();
        let loops = read.max_loops.unwrap_or(loops);
        if loops == 0 {
            return Err(invalid_argument("max_loops: must be 1 or more"));
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

/// The maximum number of queries in the first round.
const MOST_FIRST_QUERIES: usize = 6;

/// The minimum number of words for a part of a question to become a separate query.
const LEAST_WORDS: usize = 3;

/// Returns the caller's queries. If there are none, returns the question, its parts, and the question with its
/// focus.
pub(super) fn first_queries(task: &ResearchTask) -> Vec<String> {
    let mut queries = task.queries.clone();
    if queries.is_empty() {
        if !task.focus.is_empty() {
            queries.push(format!("{} {}", task.question, task.focus));
        }
        queries.push(task.question.clone());
        let parts = task.question.split(['?', ';', '？', '；', '\n']).map(str::trim);
        let parts: Vec<&str> = parts.filter(|it| it.split_whitespace().count() >= LEAST_WORDS).collect();
        if parts.len() > 1 {
            queries.extend(parts.into_iter().map(str::to_owned));
        }
    }
    let mut unique: Vec<String> = Vec::new();
    for query in queries {
        let query: String = query.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(400).collect();
        if unique.len() < MOST_FIRST_QUERIES && !unique.iter().any(|it| it.eq_ignore_ascii_case(&query)) {
            unique.push(query);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::ErrorCode;

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

    #[test]
    fn a_question_of_parts_is_asked_in_parts() {
        let of = |question: &str, focus: &str, queries: &[&str]| {
            let queries = queries.iter().map(|it| (*it).to_owned()).collect();
            let (question, focus) = (question.to_owned(), focus.to_owned());
            first_queries(&ResearchTask {
                question,
                focus,
                queries,
                limits: Limits::default(),
                quotes: 1,
                is_thorough: false,
                model: String::new(),
            })
        };
        assert_eq!(of("Who built it?", "", &[]), ["Who built it?"]);
        assert_eq!(of("Who built it? When was it painted?", "", &[]).len(), 3);
        assert_eq!(of("Trends in X", "2024", &[]), ["Trends in X 2024", "Trends in X"]);
        assert_eq!(of("Trends in X", "2024", &["a", "A", "b"]), ["a", "b"]);
    }
}
