//! An indexed collection of pages from a folder or a site.

use std::sync::Arc;

use openskill_research::index::{Index, TermCounts};
use openskill_research::question::Question;
use openskill_research::rarity::Rarities;

use super::page::{Hit, Page};

/// The maximum number of hits for a query.
const MAX_HITS: usize = 30;

/// Pages with their index.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pages: Vec<Arc<Page>>,
    index: Index,
    bytes: usize,
}

impl Collection {
    pub(super) fn add(&mut self, page: Arc<Page>, counts: &TermCounts) {
        self.bytes += page.document.text.len();
        self.pages.push(page);
        self.index.add(counts);
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Returns the total size of all texts, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the pages that contain words of a query, best first.
    pub(super) fn find(&self, query: &str) -> Vec<Hit> {
        let found = self.index.find(&Question::new(query), MAX_HITS);
        let best = found.first().map_or(1.0, |it| it.1).max(f64::MIN_POSITIVE);
        let hits = found.into_iter().filter_map(|(number, score)| {
            let page = self.pages.get(number)?;
            let (url, title, page) = (page.url.clone(), page.title.clone(), Arc::clone(page));
            Some(Hit { url, title, snippet: String::new(), score: score / best, page: Some(page) })
        });
        hits.collect()
    }

    pub(super) fn rarities(&self, question: &Question) -> Rarities {
        Rarities::from_index(question, &self.index)
    }
}
