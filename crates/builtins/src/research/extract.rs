//! Extracts the text of a page according to its format.

use openskill_research::charset::decode;
use openskill_research::document::Document;
use openskill_research::index::TermCounts;
use openskill_research::{html, markdown, plain};

use super::problem::ResearchProblem;
use crate::call::CallSlot;

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
    pub(super) fn detect(content_type: &str, path: &str, body: &[u8]) -> Result<Self, ResearchProblem> {
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

/// Extracts the text of a non-PDF page and counts its words. Runs on a blocking thread that holds the call's slot.
///
/// # Errors
/// The page can't be parsed.
pub(super) async fn extract(
    kind: PageKind,
    content_type: String,
    body: Vec<u8>,
    slot: CallSlot,
) -> Result<(Document, TermCounts), ResearchProblem> {
    let work = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        let text = decode(&body, &content_type);
        let document = match kind {
            PageKind::Html => html::read(&text),
            PageKind::Markdown => markdown::read(&text),
            PageKind::Plain | PageKind::Pdf => plain::read(&text),
        };
        let counts = TermCounts::from_document(&document);
        (document, counts)
    });
    work.await.map_err(|_| ResearchProblem::Kind("a page that could not be read".to_owned()))
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
