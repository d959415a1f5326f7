//! Pages found by a provider, pages that were read, and an indexed collection of pages from a folder or a site.

use std::sync::Arc;
use std::time::SystemTime;

use openskill_text::pages::document::Document;
use openskill_text::pages::index::{Index, Rarities, TermCounts};
use openskill_text::pages::question::Question;

/// A page that was read.
#[derive(Debug)]
pub(super) struct Page {
    /// The URL after redirects, or the location in a folder, such as `folder:/guide.md`.
    pub(super) url: String,
    pub(super) title: String,
    pub(super) fetched_at: SystemTime,
    pub(super) document: Document,
}

/// A search hit.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) url: String,
    pub(super) title: String,
    /// The provider's excerpt of the page. It is never quoted.
    pub(super) snippet: String,
    /// The score among the hits of one query, from 0 to 1.
    pub(super) score: f64,
    /// The page, if the provider has already read it.
    pub(super) page: Option<Arc<Page>>,
}

/// The maximum number of hits for a query.
const MAX_HITS: usize = 30;

/// Pages with their index.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pages: Vec<Arc<Page>>,
    index: Index,
    /// The total size of all texts, in bytes.
    pub(super) bytes: usize,
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
