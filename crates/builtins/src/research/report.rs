//! The result of a call. Each quote is checked against the text that was read, and removed if the text does not
//! contain it.

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use openskill_text::pages::answer::compose;
use openskill_text::pages::quote::is_verbatim;
use serde::Serialize;
use serde_json::json;

use super::budget::Budget;
use super::page::Page;
use super::rounds::Findings;
use crate::host::FunctionOutput;

/// The maximum number of listed sources.
const MAX_SOURCES: usize = 50;

/// A quote with its source.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Citation {
    /// The citation number, from 1.
    pub(super) n: usize,
    pub(super) url: String,
    pub(super) title: String,
    pub(super) fetched_at: String,
    /// The quoted text, word for word.
    pub(super) quote: String,
}

/// Returns citations for the quotes that their pages contain word for word. Drops the others.
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
                fetched_at: Timestamp::from(page.fetched_at).seconds_text(),
                quote: text.to_owned(),
            });
        }
    }
    citations
}

/// Builds the result of a call. `worded` is the model's answer, whose sentences cite quotes. Without it, the
/// answer consists of quotes.
pub(super) fn report(
    found: Findings,
    citations: Vec<Citation>,
    worded: Option<String>,
    budget: &Budget,
) -> FunctionOutput {
    let answer = worded.unwrap_or_else(|| compose(citations.iter().map(|it| it.quote.as_str())));
    let text = render(&answer, &citations);
    let sources = found.order.iter().filter_map(|it| found.pages.get(*it)).take(MAX_SOURCES);
    let source = |page: &Arc<Page>| {
        let fetched_at = Timestamp::from(page.fetched_at).seconds_text();
        json!({"url": page.url, "title": page.title, "fetched_at": fetched_at})
    };
    let (used, limits) = (budget.used(), budget.limits);
    let data = json!({
        "answer": answer,
        "citations": citations,
        "sources": sources.map(source).collect::<Vec<_>>(),
        "queries": found.queries,
        "loops": found.loops,
        "pages_read": found.pages.len(),
        "warnings": found.warnings,
        "budget": {
            "loops": {"used": found.loops, "limit": limits.loops},
            "pages": {"used": used.pages, "limit": limits.pages},
            "bytes": {"used": used.bytes, "limit": limits.bytes},
            "seconds": {"used": seconds(used.time), "limit": seconds(limits.time)},
            "tokens": {"used": used.tokens, "limit": limits.tokens},
        },
    });
    FunctionOutput { data: data.to_string(), text, truncated: false }
}

/// Returns seconds, rounded to milliseconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Formats the result for a model: the answer and the sources of its quotes.
fn render(answer: &str, citations: &[Citation]) -> String {
    let sources = citations.iter().map(|it| format!("\n[{}] {} <{}>", it.n, it.title, it.url));
    format!("{answer}{}", sources.collect::<String>())
}
