//! From the bytes of a page to its text.

use openskill_research::charset::decode;
use openskill_research::document::Document;
use openskill_research::index::Counts;
use openskill_research::{html, markdown, plain};

use super::problem::Problem;
use crate::schedule::Slot;

/// How a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    Markdown,
    Plain,
    Pdf,
}

impl Kind {
    /// By its content type, or by the ending of its path if that says nothing.
    ///
    /// # Errors
    /// It is of a kind that is not read.
    pub(super) fn of(content_type: &str, path: &str, body: &[u8]) -> Result<Self, Problem> {
        let plain = content_type.split(';').next().unwrap_or_default().trim();
        match plain {
            _ if body.starts_with(b"%PDF-") => Ok(Self::Pdf),
            "text/html" | "application/xhtml+xml" => Ok(Self::Html),
            "text/markdown" | "text/x-markdown" => Ok(Self::Markdown),
            "application/pdf" => Ok(Self::Pdf),
            "text/plain" => Ok(Self::of_path(path).filter(|it| *it == Self::Markdown).unwrap_or(Self::Plain)),
            "" if is_html(body) => Ok(Self::Html),
            "" | "application/octet-stream" => {
                Self::of_path(path).ok_or_else(|| Problem::Kind("of an unknown type".to_owned()))
            }
            other => Err(Problem::Kind(other.chars().filter(|it| !it.is_control()).take(60).collect())),
        }
    }

    /// By the ending of a path.
    pub(super) fn of_path(path: &str) -> Option<Self> {
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

/// Whether a page without a content type begins as HTML does.
fn is_html(body: &[u8]) -> bool {
    let head = String::from_utf8_lossy(body.get(..body.len().min(256)).unwrap_or_default()).trim_start().to_lowercase();
    head.starts_with("<!doctype html") || head.starts_with("<html")
}

/// The text of a page that is no PDF, on a blocking thread that holds the call's slot, with its words counted.
///
/// # Errors
/// It cannot be read.
pub(super) async fn extract(
    kind: Kind,
    content_type: String,
    body: Vec<u8>,
    slot: Slot,
) -> Result<(Document, Counts), Problem> {
    let work = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        let text = decode(&body, &content_type);
        let document = match kind {
            Kind::Html => html::read(&text),
            Kind::Markdown => markdown::read(&text),
            Kind::Plain | Kind::Pdf => plain::read(&text),
        };
        let counts = Counts::of(&document);
        (document, counts)
    });
    work.await.map_err(|_| Problem::Kind("a page that could not be read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_says_what_a_page_is() {
        let of = |content_type: &str, path: &str| Kind::of(content_type, path, b"").ok();
        assert_eq!(of("text/html; charset=gbk", "/a.pdf"), Some(Kind::Html));
        assert_eq!(of("text/plain", "/README.md"), Some(Kind::Markdown));
        assert_eq!(of("text/plain", "/a.html"), Some(Kind::Plain));
        assert_eq!(of("application/octet-stream", "/a.txt"), Some(Kind::Plain));
        assert_eq!(Kind::of("", "/", b"\n<!DOCTYPE html><p>"), Ok(Kind::Html));
        assert_eq!(of("image/png", "/a.html"), None);
        assert_eq!(Kind::of("text/html", "/", b"%PDF-1.7"), Ok(Kind::Pdf));
    }
}
