//! The initial queries for a question.

use super::arguments::ResearchTask;

/// The maximum number of queries in the first round.
const MOST: usize = 6;

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
        if unique.len() < MOST && !unique.iter().any(|it| it.eq_ignore_ascii_case(&query)) {
            unique.push(query);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::research::Limits;

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
