//! Pages found by a provider, and pages that were read.

use std::sync::Arc;
use std::time::SystemTime;

use openskill_research::document::Document;

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
