//! Reads a page: its bytes, and its text.

use std::sync::Arc;

use openskill_research::document::Document;
use openskill_research::index::Counts;
use url::Url;

use super::budget::Budget;
use super::extract::{Kind, extract};
use super::fetch::{Ask, Fetcher, Follows};
use super::page::Page;
use super::pdf::PdfReader;
use super::problem::Problem;
use crate::manifest::http::Allowed;
use crate::schedule::Slot;

/// Reads pages for one call.
pub(super) struct Reader {
    pub(super) fetcher: Fetcher,
    pub(super) pdf: PdfReader,
    pub(super) slot: Slot,
}

/// A page with its words and its links.
pub(super) struct Read {
    pub(super) page: Arc<Page>,
    pub(super) counts: Counts,
    /// After redirects.
    pub(super) url: Url,
    /// Whether the page has more, which was not read.
    pub(super) is_cut: bool,
}

impl Reader {
    /// Reads the page at a URL. `follows`: where redirects may lead.
    ///
    /// # Errors
    /// It cannot be read, or has no text.
    pub(super) async fn page(
        &self,
        url: Url,
        allow: &Allowed,
        follows: &Follows<'_>,
        budget: &Budget,
    ) -> Result<Read, Problem> {
        let fetched = self.fetcher.fetch(Ask { follows, ..Ask::page(url, allow) }, budget).await?;
        match fetched.status {
            200..=299 => {}
            429 => return Err(Problem::TooMany),
            status => return Err(Problem::Status(status)),
        }
        let kind = Kind::of(&fetched.content_type, fetched.url.path(), &fetched.body)?;
        if kind == Kind::Pdf && fetched.is_cut {
            return Err(Problem::Pdf("it is a PDF file that is too large".to_owned()));
        }
        let (document, counts) = self.text(kind, fetched.content_type, fetched.body, budget).await?;
        let (title, fetched_at) = (document.name(), fetched.at);
        let page = Arc::new(Page { url: fetched.url.as_str().to_owned(), title, fetched_at, document });
        Ok(Read { page, counts, url: fetched.url, is_cut: fetched.is_cut })
    }

    /// The text of a page's bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn text(
        &self,
        kind: Kind,
        content_type: String,
        body: Vec<u8>,
        budget: &Budget,
    ) -> Result<(Document, Counts), Problem> {
        if kind == Kind::Pdf {
            let document = self.pdf.read(&body, self.slot.clone(), budget.left()).await?;
            let counted = tokio::task::spawn_blocking(move || (Counts::of(&document), document)).await;
            let (counts, document) = counted.map_err(|_| Problem::Pdf("its words could not be counted".to_owned()))?;
            return Ok((document, counts));
        }
        extract(kind, content_type, body, self.slot.clone()).await
    }
}
