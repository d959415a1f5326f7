//! Browser events since the last call, as a limited number of messages for the caller.

use serde_json::{Value, json};

use super::wording::line;

/// The maximum number of events kept between two calls.
const MOST: usize = 20;

/// An event that the caller did not cause directly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happening {
    Opened(u64, String),
    /// The tab was not opened because the tab limit was reached.
    NotOpened(String),
    Closed(u64),
    Crashed(u64),
    Dialog {
        kind: String,
        message: String,
        accepted: bool,
    },
    FileChooser,
    NotDownloaded(String),
}

/// Events in the order in which they happened.
#[derive(Debug, Default)]
pub(super) struct News {
    all: Vec<Happening>,
    dropped: usize,
}

impl News {
    pub(super) fn add(&mut self, happening: Happening) {
        if self.all.len() < MOST {
            self.all.push(happening);
        } else {
            self.dropped += 1;
        }
    }

    /// Removes all events and returns a line for each, except for those that `is_known` says the caller already
    /// knows.
    pub(super) fn take(&mut self, is_known: impl Fn(&Happening) -> bool) -> Vec<String> {
        let Self { all, dropped } = std::mem::take(self);
        let mut lines: Vec<String> = all.iter().filter(|it| !is_known(it)).map(Happening::line).collect();
        if dropped > 0 {
            lines.push(format!("{dropped} more events are not listed"));
        }
        lines
    }
}

impl Happening {
    fn line(&self) -> String {
        match self {
            Self::Opened(id, url) if url.is_empty() => format!("the page opened a tab: page_id {id}"),
            Self::Opened(id, url) => format!("the page opened a tab: page_id {id}, {}", line(url, 200)),
            Self::NotOpened(url) => {
                format!("the page tried to open a tab, but the maximum number of tabs is open: {}", line(url, 200))
            }
            Self::Closed(id) => format!("the tab with page_id {id} was closed"),
            Self::Crashed(id) => format!("the page of the tab with page_id {id} crashed"),
            Self::Dialog { kind, message, accepted } => {
                let answer = match (kind.as_str(), accepted) {
                    ("alert", _) => "it was closed",
                    ("beforeunload", _) => "it was answered with 'leave the page'",
                    _ => "it was answered with 'no'",
                };
                format!("the page showed a dialog ({}): \"{}\"; {answer}", line(kind, 20), line(message, 300))
            }
            Self::FileChooser => "the page asked for a file; none was given".to_owned(),
            Self::NotDownloaded(name) => {
                format!(
                    "a download was refused because the call reached its maximum number of downloads: {}",
                    line(name, 100)
                )
            }
        }
    }
}

/// Returns the entry for a download in an answer.
pub(super) fn download(name: &str, bytes: u64, outcome: &str) -> Value {
    json!({"name": line(name, 120), "bytes": bytes, "outcome": outcome})
}
