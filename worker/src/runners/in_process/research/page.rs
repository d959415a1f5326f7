//! What a provider finds, and what is read of it.

use std::sync::Arc;
use std::time::SystemTime;

use openskill_research::document::Document;

/// A page that was read.
#[derive(Debug)]
pub(super) struct Page {
    /// Where it was read, after redirects; or its place in a folder, `folder:/guide.md`.
    pub(super) url: String,
    pub(super) title: String,
    pub(super) fetched_at: SystemTime,
    pub(super) document: Document,
}

/// A page that was found.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) url: String,
    pub(super) title: String,
    /// What the provider shows of it. It is never quoted.
    pub(super) snippet: String,
    /// From 0 to 1 among the hits of one query.
    pub(super) score: f64,
    /// The page, if the provider has read it.
    pub(super) page: Option<Arc<Page>>,
}
