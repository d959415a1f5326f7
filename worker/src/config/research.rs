//! The settings of the research tools.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::manifest::http::Allowed;

/// Why the tools are unavailable without a provider.
pub(crate) const NO_PROVIDER: &str = "no source of pages is configured: set OPENSKILL_RESEARCH_PROVIDER to searxng, brave, \
                                      tavily, folder or site";

/// What the research tools search, and their limits.
#[derive(Debug, Clone, Default)]
pub struct Research {
    /// None: the tools are unavailable.
    pub provider: Option<Provider>,
    /// The hosts outside the public internet that pages may be read from.
    pub allow: Allow,
    /// The most that one call may use.
    pub limits: Limits,
    /// Plans queries and words answers. None: answers are made of quotes alone.
    pub model: Option<Model>,
}

/// Where pages are found.
#[derive(Debug, Clone)]
pub enum Provider {
    /// A SearXNG instance with its JSON format on.
    Searxng(Url),
    /// Brave's web search API.
    Brave(Url, Secret),
    /// Tavily's search API.
    Tavily(Url, Secret),
    /// Documents in a folder.
    Folder(PathBuf),
    /// Pages of sites, read from their start pages on.
    Site(Site),
}

impl Provider {
    /// Its name, as the setting has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Searxng(_) => "searxng",
            Self::Brave(..) => "brave",
            Self::Tavily(..) => "tavily",
            Self::Folder(_) => "folder",
            Self::Site(_) => "site",
        }
    }
}

/// The provider and its place, without a key.
impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Self::Searxng(url) | Self::Brave(url, _) | Self::Tavily(url, _) => write!(f, "{url}"),
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Site(site) => {
                let starts: Vec<&str> = site.starts.iter().map(Url::as_str).collect();
                write!(f, "{}, at most {} pages", starts.join(", "), site.pages)
            }
        }
    }
}

/// The sites that are read.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where reading begins. Links lead to other pages of the same origins only.
    pub starts: Vec<Url>,
    /// The most pages that are kept.
    pub pages: usize,
    /// How long pages are kept until the sites are read again.
    pub fresh: Duration,
}

/// The most that one call may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rounds of searching.
    pub loops: usize,
    /// Pages that are requested.
    pub pages: usize,
    /// Bytes of answers, as they are received.
    pub bytes: u64,
    /// How long it takes.
    pub time: Duration,
    /// Tokens of the model, of requests and replies together.
    pub tokens: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { loops: 5, pages: 32, bytes: 32 << 20, time: Duration::from_secs(60), tokens: 32_000 }
    }
}

/// A model with an endpoint like OpenAI's.
#[derive(Debug, Clone)]
pub struct Model {
    /// The URL that `/chat/completions` is added to.
    pub base: Url,
    /// Its name, unless a call names another.
    pub name: String,
    /// Empty: none is sent.
    pub key: Secret,
}

/// A key. It is never shown.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// Without white space around it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The key itself, for a request's header.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Hosts outside the public internet, as `http.allow` of a manifest lists them.
#[derive(Debug, Clone, Default)]
pub struct Allow(pub(crate) Allowed);

impl Allow {
    /// Reads a list.
    ///
    /// # Errors
    /// The invalid entry, and the valid forms.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        Allowed::parse(entries).map(Self)
    }
}
