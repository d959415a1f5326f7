//! Finds the tools that match the words of a task. Pure.

use openskill_text::task::{ParsedTask, Term};
use openskill_text::tools::{ToolDocument, rank};
use serde::Serialize;

/// The maximum number of tools in the answer.
const MOST_TOOLS: usize = 5;

/// The minimum score of a match, as a fraction of the best score.
const LEAST_SHARE: f64 = 0.4;

/// The maximum number of missing words in the answer.
const MOST_MISSING: usize = 10;

/// A tool that the caller can see.
#[derive(Debug)]
pub(super) struct Tool<'a> {
    pub(super) id: &'a str,
    pub(super) toolset: &'a str,
    pub(super) document: &'a ToolDocument,
    /// Why it can't currently be called, if it can't.
    pub(super) obstacle: Option<Obstacle>,
}

/// Which tools a task needs.
#[derive(Debug, Serialize)]
pub(super) struct Needs {
    /// The matching tools, best first.
    needed: Vec<Needed>,
    /// What no callable tool does. None if nothing is known to be missing.
    missing: Option<Missing>,
    /// The matching tools whose circuit breaker is open.
    paused: Vec<Obstacle>,
    /// The matching tools that no worker can run.
    unavailable: Vec<Obstacle>,
}

/// Why a tool can't currently be called.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Obstacle {
    pub(super) tool: String,
    pub(super) reason: String,
    /// When its circuit breaker may close. None if no worker can run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Needed {
    tool: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    toolset: String,
    status: &'static str,
    why: String,
    /// The score relative to the best one.
    score: f64,
}

#[derive(Debug, Serialize)]
struct Missing {
    statement: String,
    /// Words of the task that match none of the needed tools.
    words: Vec<String>,
}

/// Finds the tools that a task needs. The result names only tools from this list.
pub(super) fn analyze(task: &str, tools: &[Tool<'_>]) -> Needs {
    let ParsedTask { terms, query } = ParsedTask::parse(task);
    let documents: Vec<&ToolDocument> = tools.iter().map(|it| it.document).collect();
    let ranked = rank(&query, &documents);
    let best = ranked.first().map_or(0.0, |(_, score)| *score);
    let fitting = ranked.into_iter().filter(|(_, score)| *score >= LEAST_SHARE * best).take(MOST_TOOLS);
    let chosen: Vec<(&Tool<'_>, f64)> = fitting.map(|(index, score)| (&tools[index], score / best)).collect();
    let obstacles = chosen.iter().filter_map(|(tool, _)| tool.obstacle.clone());
    let (paused, unavailable) = obstacles.partition(|it| it.retry_after_ms.is_some());
    let needed = chosen.iter().map(|(tool, score)| explain_need(tool, *score, &terms)).collect();
    Needs { needed, missing: missing(&chosen, &terms), paused, unavailable }
}

fn explain_need(tool: &Tool<'_>, score: f64, terms: &[Term]) -> Needed {
    let shared: Vec<String> = terms.iter().filter(|it| tool.document.has(&it.meant)).map(Term::describe).collect();
    let why = match shared.as_slice() {
        [] => "its description has words of the task".to_owned(),
        words => format!("its name, description or parameters have: {}", words.join(", ")),
    };
    let status = match &tool.obstacle {
        None => "available",
        Some(Obstacle { retry_after_ms: Some(_), .. }) => "paused",
        Some(_) => "unavailable",
    };
    let score = (score * 100.0).round() / 100.0;
    Needed { tool: tool.id.to_owned(), toolset: tool.toolset.to_owned(), status, why, score }
}

fn missing(chosen: &[(&Tool<'_>, f64)], terms: &[Term]) -> Option<Missing> {
    let is_covered = |term: &&Term| chosen.iter().any(|(tool, _)| tool.document.has(&term.meant));
    let words: Vec<String> = terms.iter().filter(|it| !is_covered(it)).take(MOST_MISSING).map(Term::describe).collect();
    let can_be_called = chosen.iter().any(|(tool, _)| tool.obstacle.is_none());
    let listed = || words.join(", ");
    let statement = match (chosen, can_be_called) {
        ([], _) if terms.is_empty() => {
            "The task names nothing that a tool does: describe what is to be done.".to_owned()
        }
        ([], _) => format!("No tool fits the task: no tool is about {}.", listed()),
        (_, false) => "The tools that fit can't be called now: see paused and unavailable for the reasons.".to_owned(),
        (_, true) if words.is_empty() => return None,
        (_, true) => format!(
            "None of the needed tools mentions: {}. Check whether these tools are enough for the task.",
            listed()
        ),
    };
    Some(Missing { statement, words })
}

impl Needs {
    /// Summarizes the result for a model, in one line.
    pub(super) fn summary(&self) -> String {
        let tools: Vec<String> = self
            .needed
            .iter()
            .map(|it| if it.status == "available" { it.tool.clone() } else { format!("{} ({})", it.tool, it.status) })
            .collect();
        let missing = self.missing.as_ref().map_or("", |it| it.statement.as_str());
        match tools.as_slice() {
            [] => missing.to_owned(),
            tools => format!("Tools that fit, the best first: {}. {missing}", tools.join(", ")).trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(id: &str, description: &str) -> ToolDocument {
        ToolDocument::new(id, "", description, None)
    }

    #[test]
    fn tools_are_named_with_the_reason_and_what_keeps_them_from_being_called() {
        let documents = [
            document("browser_screenshot", "Takes a screenshot of the current page."),
            document("browser_save_pdf", "Saves the current page as a PDF file."),
            document("calculator", "Computes the mean of numbers."),
        ];
        let obstacle = |tool: &str, reason: &str, retry_after_ms| {
            Some(Obstacle { tool: tool.to_owned(), reason: reason.to_owned(), retry_after_ms })
        };
        let obstacles = [
            obstacle("browser_screenshot", "its circuit breaker is open for all callers", Some(5)),
            obstacle("browser_save_pdf", "not built", None),
            None,
        ];
        let tools: Vec<_> = documents
            .iter()
            .zip(["browser_screenshot", "browser_save_pdf", "calculator"])
            .zip(obstacles)
            .map(|((document, id), obstacle)| Tool { id, toolset: "t", document, obstacle })
            .collect();
        let needs = analyze("请给当前页面截图", &tools);
        assert_eq!((needs.needed[0].tool.as_str(), needs.needed[0].status), ("browser_screenshot", "paused"));
        assert!(needs.needed[0].why.contains("截图 (screenshot)"), "{}", needs.needed[0].why);
        assert_eq!((needs.paused.len(), needs.paused[0].retry_after_ms), (1, Some(5)));
        assert!(needs.missing.as_ref().unwrap().statement.contains("can't be called now"), "{needs:?}");
        assert!(needs.summary().contains("browser_screenshot (paused)"), "{}", needs.summary());
        let needs = analyze("What is the mean of these numbers by weather?", &tools);
        assert_eq!((needs.needed[0].tool.as_str(), needs.needed.len()), ("calculator", 1));
        assert_eq!(needs.missing.unwrap().words, ["weather"]);
        let needs = analyze("Send a mail", &tools);
        assert!(needs.needed.is_empty());
        assert!(needs.missing.as_ref().unwrap().statement.contains("no tool is about Send, mail"), "{needs:?}");
        assert!(analyze("？", &tools).missing.unwrap().statement.contains("describe"));
        assert!(analyze("mean of numbers", &tools).missing.is_none());
    }
}
