//! Finds the servers in an index that match a task. Pure.

use openskill_text::task::{ParsedTask, Term};
use openskill_text::tools::{ToolDocument, rank};

use super::index::{Entry, Index};

/// The maximum number of servers in an answer.
const MOST: usize = 5;

/// The minimum score of a matching server, relative to the best score.
const LEAST_SHARE: f64 = 0.4;

/// The best server is the clear choice if every other server that is about the task scores at most this fraction.
const CLEARLY: f64 = 0.6;

/// A server that matches a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate<'a> {
    pub(crate) entry: &'a Entry,
    /// The words of the task that match, for people.
    pub(crate) why: String,
    /// Its score relative to the best one.
    pub(crate) score: f64,
    /// Whether its name, title or keywords contain one of the task's words.
    is_about_it: bool,
}

/// Returns the servers that match a task, best first.
pub(crate) fn candidates<'a>(task: &str, index: &'a Index) -> Vec<Candidate<'a>> {
    let task = ParsedTask::parse(task);
    let documents: Vec<ToolDocument> = index.servers.iter().map(document).collect();
    let ranked = rank(&task.query, &documents.iter().collect::<Vec<_>>());
    let best = ranked.first().map_or(0.0, |(_, score)| *score);
    let fitting = ranked.into_iter().filter(|(_, score)| *score >= LEAST_SHARE * best).take(MOST);
    let candidate = |(place, score): (usize, f64)| {
        let (entry, document) = (index.servers.get(place)?, documents.get(place)?);
        // Keywords may be in the task's language.
        let has = |term: &&Term| document.has(&term.meant) || document.has(&term.written);
        let shared: Vec<String> = task.terms.iter().filter(has).map(Term::describe).collect();
        let why = match shared.as_slice() {
            [] => "its keywords or description have words of the task".to_owned(),
            words => format!("its name, description, keywords or tools have: {}", words.join(", ")),
        };
        let is_about_it = names(entry).has(&task.query);
        Some(Candidate { entry, why, score: (score / best * 100.0).round() / 100.0, is_about_it })
    };
    fitting.filter_map(candidate).collect()
}

/// Returns the best candidate if it is a clear choice: its name or keywords are about the task, and no other such
/// candidate matches nearly as well.
pub(crate) fn meant<'a, 'b>(candidates: &'b [Candidate<'a>]) -> Option<&'b Candidate<'a>> {
    let best = candidates.first().filter(|it| it.is_about_it)?;
    let rivals = |it: &&Candidate<'_>| it.is_about_it && it.score > CLEARLY;
    (candidates.iter().skip(1).filter(rivals).count() == 0).then_some(best)
}

fn document(entry: &Entry) -> ToolDocument {
    let tools: Vec<&str> = entry.tools.keys().map(String::as_str).collect();
    let text = format!("{} {} {}", entry.description, entry.keywords.join(" "), tools.join(" "));
    ToolDocument::new(&entry.id, &entry.title, &text, None)
}

fn names(entry: &Entry) -> ToolDocument {
    ToolDocument::new(&entry.id, &entry.title, &entry.keywords.join(" "), None)
}

#[cfg(test)]
mod tests {
    use super::super::index::tests::entry;
    use super::*;

    fn index() -> Index {
        let mut clock = entry("clock", "Tells the current time, and converts times between time zones.");
        clock.keywords = ["time zone", "time", "时间", "时区", "几点"].map(str::to_owned).to_vec();
        let mut pdf = entry("pdf", "Reads PDF files and extracts their text.");
        pdf.keywords = ["PDF", "文档"].map(str::to_owned).to_vec();
        let git = entry("git", "Shows the history of a repository: who changed which file at what time.");
        Index { servers: vec![git, pdf, clock] }
    }

    #[test]
    fn a_task_in_english_or_chinese_finds_its_server() {
        let index = index();
        for (task, id) in [
            ("What time is it in Tokyo?", "clock"),
            ("东京现在几点了", "clock"),
            ("需要在两个时区之间换算时间", "clock"),
            ("需要处理PDF文件", "pdf"),
            ("PDF files need to be processed", "pdf"),
        ] {
            let found = candidates(task, &index);
            assert_eq!(found[0].entry.id, id, "{task}: {found:?}");
            assert_eq!(meant(&found).unwrap().entry.id, id, "{task}");
        }
        assert!(candidates("发送邮件", &index).is_empty() && candidates("", &index).is_empty());
    }

    #[test]
    fn what_only_shares_a_word_with_a_description_is_not_meant() {
        let index = index();
        let found = candidates("rename a repository", &index);
        assert_eq!(found[0].entry.id, "git");
        assert_eq!(meant(&found), None);
    }

    #[test]
    fn of_two_that_fit_alike_none_is_meant() {
        let servers = ["clock-a", "clock-b"].map(|id| entry(id, "A clock that tells the time.")).to_vec();
        let index = Index { servers };
        let found = candidates("clock", &index);
        assert_eq!((found.len(), meant(&found)), (2, None));
    }
}
