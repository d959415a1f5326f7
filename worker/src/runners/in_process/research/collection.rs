//! Pages that are kept and indexed: those of a folder, or of a site.

use std::sync::Arc;

use openskill_research::index::{Counts, Index};
use openskill_research::question::Question;
use openskill_research::rarity::Rarities;

use super::page::{Hit, Page};

/// The most hits of a query.
const MAX_HITS: usize = 30;

/// The pages.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pages: Vec<Arc<Page>>,
    index: Index,
    bytes: usize,
}

impl Collection {
    pub(super) fn add(&mut self, page: Arc<Page>, counts: &Counts) {
        self.bytes += page.document.text.len();
        self.pages.push(page);
        self.index.add(counts);
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// The bytes of all texts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pages that have words of a query, the best first.
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
        Rarities::of_index(question, &self.index)
    }
}
