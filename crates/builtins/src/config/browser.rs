//! Settings for the browser tools.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_model::ProviderConfig;

use super::research::Allow;

/// Where systems install the program itself. The one on `PATH` is often a wrapper script.
const PLACES: [&str; 6] = [
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/bin/chromium",
    "/opt/google/chrome/chrome",
    "/usr/bin/google-chrome",
];

/// The placeholder for the query in the search URL.
pub const QUERY: &str = "{query}";

/// The error message if no browser is installed.
pub const NO_BROWSER: &str =
    "there is no Chromium: install it (Debian: chromium), or set OPENSKILL_BROWSER to the program";

/// The browser to use, and its limits.
#[derive(Debug, Clone)]
pub struct Browser {
    /// The program. `None` means the first one found in the usual places.
    pub program: Option<PathBuf>,
    /// Hosts outside the public internet from which pages may be loaded.
    pub allow: Allow,
    /// The search URL, which contains [`QUERY`].
    pub search: String,
    /// The maximum number of concurrent browsers, one per session.
    pub sessions: usize,
    /// How many spare browsers are kept ready while the tools are in use.
    pub spares: usize,
    /// The maximum number of tabs per browser.
    pub tabs: usize,
    /// The memory limit of one browser with all its processes, in MiB.
    pub memory_mb: u64,
    /// How long a browser may be idle before it is closed.
    pub idle: Duration,
    /// The maximum age of a browser.
    pub age: Duration,
    /// The maximum size of a download, in bytes.
    pub download_bytes: u64,
    /// The model that extracts values from pages. `None` means that extractions return the matching blocks.
    pub model: Option<ProviderConfig>,
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
    /// Returns the program, if it exists.
    ///
    /// # Errors
    /// The program does not exist. The message says what to do.
    pub fn found(&self) -> Result<PathBuf, String> {
        let is_file = |it: &&Path| it.is_file();
        match &self.program {
            Some(program) if program.is_file() => Ok(program.clone()),
            Some(program) => Err(format!("OPENSKILL_BROWSER names no file: {}", program.display())),
            None => PLACES.iter().map(Path::new).find(is_file).map(Path::to_owned).ok_or_else(|| NO_BROWSER.to_owned()),
        }
    }
}
