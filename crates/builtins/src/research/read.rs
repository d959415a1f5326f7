//! Reads a page and extracts its text.

use std::sync::Arc;

use openskill_egress::allow::Allowed;
use openskill_research::document::Document;
use openskill_research::index::TermCounts;
use url::Url;

use super::budget::Budget;
use super::extract::{PageKind, extract};
use super::fetch::{Ask, Fetcher, Follows};
use super::page::Page;
use super::problem::ResearchProblem;
use crate::call::CallSlot;
use crate::pdf::PdfReader;

/// Reads pages for one call.
pub(super) struct Reader {
    pub(super) fetcher: Fetcher,
    pub(super) pdf: PdfReader,
    pub(super) slot: CallSlot,
}

/// A page that was read, with its word counts.
pub(super) struct Read {
    pub(super) page: Arc<Page>,
    pub(super) counts: TermCounts,
    /// The URL after redirects.
    pub(super) url: Url,
    /// Whether only the beginning of the page was read.
    pub(super) is_cut: bool,
}

impl Reader {
    /// Reads the page at a URL. `follows` decides which redirects to follow.
    ///
    /// # Errors
    /// The page can't be read, or contains no text.
    pub(super) async fn page(
        &self,
        url: Url,
        allow: &Allowed,
        follows: &Follows<'_>,
        budget: &Budget,
    ) -> Result<Read, ResearchProblem> {
        let fetched = self.fetcher.fetch(Ask { follows, ..Ask::page(url, allow) }, budget).await?;
        match fetched.status {
            200..=299 => {}
            429 => return Err(ResearchProblem::TooMany),
            status => return Err(ResearchProblem::Status(status)),
        }
        let kind = PageKind::detect(&fetched.content_type, fetched.url.path(), &fetched.body)?;
        if kind == PageKind::Pdf && fetched.is_cut {
            return Err(ResearchProblem::Pdf("it is a PDF file that is too large".to_owned()));
        }
        let (document, counts) = self.text(kind, fetched.content_type, fetched.body, budget).await?;
        let (title, fetched_at) = (document.name(), fetched.at);
        let page = Arc::new(Page { url: fetched.url.as_str().to_owned(), title, fetched_at, document });
        Ok(Read { page, counts, url: fetched.url, is_cut: fetched.is_cut })
    }

    /// Extracts the text of a page from its bytes.
    ///
    /// # Errors
    /// The page can't be parsed.
    pub(super) async fn text(
        &self,
        kind: PageKind,
        content_type: String,
        body: Vec<u8>,
        budget: &Budget,
    ) -> Result<(Document, TermCounts), ResearchProblem> {
        if kind == PageKind::Pdf {
            let document = self.pdf.read(&body, self.slot.clone(), budget.remaining()).await?;
            let counted = tokio::task::spawn_blocking(move || (TermCounts::from_document(&document), document)).await;
            let (counts, document) =
                counted.map_err(|_| ResearchProblem::Pdf("its words could not be counted".to_owned()))?;
            return Ok((document, counts));
        }
        extract(kind, content_type, body, self.slot.clone()).await
    }
}
