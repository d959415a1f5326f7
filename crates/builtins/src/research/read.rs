//! Reads a page and extracts its text according to its format.

use std::sync::Arc;

use openskill_net::egress::allow::Allowed;
use openskill_text::pages::charset::decode;
use openskill_text::pages::document::Document;
use openskill_text::pages::index::TermCounts;
use openskill_text::pages::{html, markdown, plain};
use url::Url;

use super::budget::Budget;
use super::fetch::{Ask, Fetcher, Follows};
use super::page::Page;
use super::problem::ResearchProblem;
use crate::call::{CallEvents, CallSlot};
use crate::pdf::PdfReader;

/// Reads pages for one call, within its budget.
pub(super) struct Reader<'a> {
    pub(super) fetcher: Fetcher,
    pub(super) pdf: PdfReader,
    pub(super) slot: CallSlot,
    pub(super) budget: &'a Budget,
    pub(super) events: &'a dyn CallEvents,
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

impl Reader<'_> {
    /// Reads the page at a URL. `follows` decides which redirects to follow.
    ///
    /// # Errors
    /// The page can't be read, or contains no text.
    pub(super) async fn page(&self, url: Url, allow: &Allowed, follows: &Follows<'_>) -> Result<Read, ResearchProblem> {
        let fetched = self.fetcher.fetch(Ask { follows, ..Ask::page(url, allow) }, self.budget).await?;
        match fetched.status {
            200..=299 => {}
            429 => return Err(ResearchProblem::TooMany),
            status => return Err(ResearchProblem::Status(status)),
        }
        let kind = PageKind::detect(&fetched.content_type, fetched.url.path(), &fetched.body)?;
        if kind == PageKind::Pdf && fetched.is_cut {
            return Err(ResearchProblem::Pdf("it is a PDF file that is too large".to_owned()));
        }
        let (document, counts) = self.text(kind, fetched.content_type, fetched.body).await?;
        let (title, fetched_at) = (document.name(), fetched.at);
        let page = Arc::new(Page { url: fetched.url.as_str().to_owned(), title, fetched_at, document });
        Ok(Read { page, counts, url: fetched.url, is_cut: fetched.is_cut })
    }

    /// Extracts the text of a page from its bytes, and counts its words.
    ///
    /// # Errors
    /// The page can't be parsed.
    pub(super) async fn text(
        &self,
        kind: PageKind,
        content_type: String,
        body: Vec<u8>,
    ) -> Result<(Document, TermCounts), ResearchProblem> {
        if kind == PageKind::Pdf {
            let document = self.pdf.read(&body, self.slot.clone(), self.budget.remaining()).await?;
            let counted = tokio::task::spawn_blocking(move || (TermCounts::from_document(&document), document)).await;
            let (counts, document) =
                counted.map_err(|_| ResearchProblem::Pdf("its words could not be counted".to_owned()))?;
            return Ok((document, counts));
        }
        let extracted = self.slot.run_blocking(move || {
            let text = decode(&body, &content_type);
            let document = match kind {
                PageKind::Html => html::read(&text),
                PageKind::Markdown => markdown::read(&text),
                PageKind::Plain | PageKind::Pdf => plain::read(&text),
            };
            (TermCounts::from_document(&document), document)
        });
        let unread = |_| ResearchProblem::Kind("a page that could not be read".to_owned());
        let (counts, document) = extracted.await.map_err(unread)?;
        Ok((document, counts))
    }
}

/// The format of a page, which decides how to parse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Html,
    Markdown,
    Plain,
    Pdf,
}

impl PageKind {
    /// Detects the format by the content type, or by the path's extension if the content type is not specific.
    ///
    /// # Errors
    /// The format is not supported.
    fn detect(content_type: &str, path: &str, body: &[u8]) -> Result<Self, ResearchProblem> {
        let plain = content_type.split(';').next().unwrap_or_default().trim();
        match plain {
            _ if body.starts_with(b"%PDF-") => Ok(Self::Pdf),
            "text/html" | "application/xhtml+xml" => Ok(Self::Html),
            "text/markdown" | "text/x-markdown" => Ok(Self::Markdown),
            "application/pdf" => Ok(Self::Pdf),
            "text/plain" => Ok(Self::from_path(path).filter(|it| *it == Self::Markdown).unwrap_or(Self::Plain)),
            "" if is_html(body) => Ok(Self::Html),
            "" | "application/octet-stream" => {
                Self::from_path(path).ok_or_else(|| ResearchProblem::Kind("unknown".to_owned()))
            }
            other => Err(ResearchProblem::Kind(other.chars().filter(|it| !it.is_control()).take(60).collect())),
        }
    }

    /// Detects the format by a path's extension.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let (_, ending) = path.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "html" | "htm" | "xhtml" => Some(Self::Html),
            "md" | "markdown" => Some(Self::Markdown),
            "txt" | "text" | "rst" | "adoc" | "org" | "log" | "csv" => Some(Self::Plain),
            "pdf" => Some(Self::Pdf),
            _ => None,
        }
    }
}

/// Returns whether a page without a content type looks like HTML.
fn is_html(body: &[u8]) -> bool {
    let head = String::from_utf8_lossy(body.get(..body.len().min(256)).unwrap_or_default()).trim_start().to_lowercase();
    head.starts_with("<!doctype html") || head.starts_with("<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_says_what_a_page_is() {
        let detect = |content_type: &str, path: &str| PageKind::detect(content_type, path, b"").ok();
        assert_eq!(detect("text/html; charset=gbk", "/a.pdf"), Some(PageKind::Html));
        assert_eq!(detect("text/plain", "/README.md"), Some(PageKind::Markdown));
        assert_eq!(detect("text/plain", "/a.html"), Some(PageKind::Plain));
        assert_eq!(detect("application/octet-stream", "/a.txt"), Some(PageKind::Plain));
        assert_eq!(PageKind::detect("", "/", b"\n<!DOCTYPE html><p>"), Ok(PageKind::Html));
        assert_eq!(detect("image/png", "/a.html"), None);
        assert_eq!(PageKind::detect("text/html", "/", b"%PDF-1.7"), Ok(PageKind::Pdf));
    }
}
