//! The settings of the browser tools.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::research::{Allow, Model};

/// Where systems keep the program itself. What is on `PATH` is often a script that starts it.
const PLACES: [&str; 6] = [
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/bin/chromium",
    "/opt/google/chrome/chrome",
    "/usr/bin/google-chrome",
];

/// A text in the URL of a search that stands for what is searched for.
pub const QUERY: &str = "{query}";

/// Why the tools are unavailable without a browser.
pub(crate) const NO_BROWSER: &str =
    "there is no Chromium: install it (Debian: chromium), or name the program in OPENSKILL_BROWSER";

/// Which browser there is, and its bounds.
#[derive(Debug, Clone)]
pub struct Browser {
    /// The program. None: the first of the places that systems keep it in.
    pub program: Option<PathBuf>,
    /// The hosts outside the public internet that pages may be loaded from.
    pub allow: Allow,
    /// The URL of a search, with [`QUERY`] in it.
    pub search: String,
    /// Browsers at a time, one for each session.
    pub sessions: usize,
    /// Browsers that are started ahead while the tools are used.
    pub spares: usize,
    /// Tabs of one browser.
    pub tabs: usize,
    /// Memory of one browser with all its processes, in MiB.
    pub memory_mb: u64,
    /// How long a browser without calls is kept.
    pub idle: Duration,
    /// How long a browser is kept at all.
    pub age: Duration,
    /// The largest file that is downloaded.
    pub download_bytes: u64,
    /// Reads values out of pages. None: what is extracted is the blocks that fit.
    pub model: Option<Model>,
}

impl Default for Browser {
    fn default() -> Self {
        Self {
            program: None,
            allow: Allow::default(),
            search: format!("https://www.google.com/search?q={QUERY}"),
            sessions: 8,
            spares: 1,
            tabs: 10,
            memory_mb: 2048,
            idle: Duration::from_secs(600),
            age: Duration::from_secs(3600),
            download_bytes: 32 << 20,
            model: None,
        }
    }
}

impl Browser {
    /// The program, if it is there.
    ///
    /// # Errors
    /// It is not: what to do.
    pub(crate) fn found(&self) -> Result<PathBuf, String> {
        let is_file = |it: &&Path| it.is_file();
        match &self.program {
            Some(program) if program.is_file() => Ok(program.clone()),
            Some(program) => Err(format!("OPENSKILL_BROWSER names no file: {}", program.display())),
            None => PLACES.iter().map(Path::new).find(is_file).map(Path::to_owned).ok_or_else(|| NO_BROWSER.to_owned()),
        }
    }
}
