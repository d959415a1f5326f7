//! Settings for the research tools.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use openskill_model::{ProviderConfig, Secret};
/// Hosts outside the public internet, in the format of `http.allow` in manifests.
pub use openskill_net::egress::allow::Allowed as Allow;
use url::Url;

/// The error message if no provider is configured.
pub const NO_PROVIDER: &str = "no source of pages is configured: set OPENSKILL_RESEARCH_PROVIDER to searxng, brave, \
                                      tavily, folder or site";

/// The provider of the research tools, and their limits.
#[derive(Debug, Clone, Default)]
pub struct Research {
    /// The source of pages. `None` disables the tools.
    pub provider: Option<Provider>,
    /// Hosts outside the public internet from which pages may be read.
    pub allow: Allow,
    /// The limits of one call.
    pub limits: Limits,
    /// The model that plans queries and writes answers. `None` means that answers consist only of quotes.
    pub model: Option<ProviderConfig>,
}

/// A source of pages.
#[derive(Debug, Clone)]
pub enum Provider {
    /// A SearXNG instance, whose JSON format must be enabled.
    Searxng(Url),
    /// Brave's web search API.
    Brave(Url, Secret),
    /// Tavily's web search API.
    Tavily(Url, Secret),
    /// Documents in a local folder.
    Folder(PathBuf),
    /// Pages of web sites, crawled from their start pages.
    Site(Site),
}

/// Displays the provider's name in the settings and its address, without its key.
impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Searxng(url) => write!(f, "searxng: {url}"),
            Self::Brave(url, _) => write!(f, "brave: {url}"),
            Self::Tavily(url, _) => write!(f, "tavily: {url}"),
            Self::Folder(path) => write!(f, "folder: {}", path.display()),
            Self::Site(site) => {
                let starts: Vec<&str> = site.starts.iter().map(Url::as_str).collect();
                write!(f, "site: {}, at most {} pages", starts.join(", "), site.pages)
            }
        }
    }
}

/// The sites to crawl.
#[derive(Debug, Clone)]
pub struct Site {
    /// The start pages. Only links to the same origins are followed.
    pub starts: Vec<Url>,
    /// The maximum number of pages kept.
    pub pages: usize,
    /// How long pages are kept before the sites are crawled again.
    pub fresh: Duration,
}

/// The limits of one call.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum number of search rounds.
    pub loops: usize,
    /// The maximum number of requested pages.
    pub pages: usize,
    /// The maximum number of received bytes.
    pub bytes: u64,
    /// The maximum total time.
    pub time: Duration,
    /// The maximum number of model tokens, requests and replies combined.
    pub tokens: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { loops: 5, pages: 32, bytes: 32 << 20, time: Duration::from_secs(60), tokens: 32_000 }
    }
}
