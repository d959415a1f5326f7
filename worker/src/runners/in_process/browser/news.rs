//! What happened in a browser since the last call: bounded, in words for the caller.

use serde_json::{Value, json};

use super::wording::line;

/// How much is remembered between two calls.
const MOST: usize = 20;

/// Something that a caller did not do itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happening {
    Opened(u64, String),
    /// There were too many tabs.
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

/// What happened, in order.
#[derive(Debug, Default)]
pub(super) struct News {
    all: Vec<Happening>,
    dropped: usize,
    /// Dialogs since the last call.
    pub(super) dialogs: usize,
}

impl News {
    pub(super) fn add(&mut self, happening: Happening) {
        self.dialogs += usize::from(matches!(happening, Happening::Dialog { .. }));
        if self.all.len() < MOST {
            self.all.push(happening);
        } else {
            self.dropped += 1;
        }
    }

    /// Takes all of it, without what `is_known` to the caller.
    pub(super) fn take(&mut self, is_known: impl Fn(&Happening) -> bool) -> Vec<String> {
        let Self { all, dropped, .. } = std::mem::take(self);
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
                format!("the page tried to open a tab, and there are as many as allowed: {}", line(url, 200))
            }
            Self::Closed(id) => format!("the tab with page_id {id} was closed"),
            Self::Crashed(id) => format!("the page of the tab with page_id {id} crashed"),
            Self::Dialog { kind, message, accepted } => {
                let answer = match (kind.as_str(), accepted) {
                    ("alert", _) => "it was closed",
                    ("beforeunload", _) => "it was answered: leave the page",
                    _ => "it was answered: no",
                };
                format!("the page showed a dialog ({}): \"{}\"; {answer}", line(kind, 20), line(message, 300))
            }
            Self::FileChooser => "the page asked for a file; none was given".to_owned(),
            Self::NotDownloaded(name) => {
                format!("a download was refused, as there were as many as allowed: {}", line(name, 100))
            }
        }
    }
}

/// A download, for an answer.
pub(super) fn download(name: &str, bytes: u64, outcome: &str) -> Value {
    json!({"name": line(name, 120), "bytes": bytes, "outcome": outcome})
}
