//! What a call returns. Each quote is looked for in the text that was read, and one that is not there is removed.

use std::time::Duration;

use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_research::answer::compose;
use openskill_research::quote::is_verbatim;
use serde::Serialize;

use super::budget::Budget;
use super::rounds::Findings;
use super::timestamp::timestamp;
use crate::runners::in_process::host::Report;

/// The most sources that are listed.
const MAX_SOURCES: usize = 50;

/// A citation.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Citation {
    /// From 1.
    pub(super) n: usize,
    pub(super) url: String,
    pub(super) title: String,
    pub(super) fetched_at: String,
    /// Word for word.
    pub(super) quote: String,
}

#[derive(Debug, Serialize)]
struct Source {
    url: String,
    title: String,
    fetched_at: String,
}

#[derive(Debug, Serialize)]
struct Answer {
    answer: String,
    citations: Vec<Citation>,
    sources: Vec<Source>,
    queries: Vec<String>,
    loops: usize,
    pages_read: usize,
    warnings: Vec<String>,
    budget: Used,
}

#[derive(Debug, Serialize)]
struct Used {
    loops: Part<usize>,
    pages: Part<usize>,
    bytes: Part<u64>,
    seconds: Part<f64>,
    tokens: Part<u64>,
}

#[derive(Debug, Serialize)]
struct Part<T> {
    used: T,
    limit: T,
}

/// The citations of what was found: those whose quotes are in their pages, word for word.
pub(super) fn citations(found: &Findings) -> Vec<Citation> {
    let mut citations = Vec::new();
    for quote in &found.quotes {
        let Some(page) = found.pages.get(quote.page) else { continue };
        let Some(text) = page.document.text.get(quote.range.clone()) else { continue };
        if is_verbatim(&page.document, text) {
            citations.push(Citation {
                n: citations.len() + 1,
                url: page.url.clone(),
                title: page.title.clone(),
                fetched_at: timestamp(page.fetched_at),
                quote: text.to_owned(),
            });
        }
    }
    citations
}

/// The result of a call. `worded`: an answer in other words, whose sentences cite; else it is made of the quotes.
///
/// # Errors
/// It cannot be written as JSON.
pub(super) fn report(
    found: Findings,
    citations: Vec<Citation>,
    worded: Option<String>,
    budget: &Budget,
) -> Result<Report, SkillError> {
    let answer = worded.unwrap_or_else(|| compose(citations.iter().map(|it| it.quote.as_str())));
    let text = shown(&answer, &citations);
    let sources = found.order.iter().filter_map(|it| found.pages.get(*it)).take(MAX_SOURCES).map(|page| Source {
        url: page.url.clone(),
        title: page.title.clone(),
        fetched_at: timestamp(page.fetched_at),
    });
    let sources = sources.collect();
    let (pages, bytes, tokens, time) = budget.used();
    let limits = budget.limits;
    let answer = Answer {
        answer,
        citations,
        sources,
        queries: found.queries,
        loops: found.loops,
        pages_read: found.pages.len(),
        warnings: found.warnings,
        budget: Used {
            loops: Part { used: found.loops, limit: limits.loops },
            pages: Part { used: pages, limit: limits.pages },
            bytes: Part { used: bytes, limit: limits.bytes },
            seconds: Part { used: seconds(time), limit: seconds(limits.time) },
            tokens: Part { used: tokens, limit: limits.tokens },
        },
    };
    let data = serde_json::to_string(&answer);
    let data =
        data.map_err(|error| SkillError::new(ErrorCode::Internal, format!("the answer is not JSON: {error}")))?;
    Ok(Report { data, text, truncated: false })
}

/// To the millisecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// For a model: the answer, and where its quotes are from.
fn shown(answer: &str, citations: &[Citation]) -> String {
    let sources = citations.iter().map(|it| format!("\n[{}] {} <{}>", it.n, it.title, it.url));
    format!("{answer}{}", sources.collect::<String>())
}
