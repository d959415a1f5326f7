//! The sources of pages: a search engine, a folder or sites.

use openskill_text::pages::index::Rarities;
use openskill_text::pages::question::Question;

use super::folder::FolderSource;
use super::page::Hit;
use super::problem::ResearchProblem;
use super::provider::{Api, Engine};
use super::read::Reader;
use super::site::Site;
use crate::config::research::Provider;

/// A source of pages.
pub(super) enum Source {
    Engine(Engine),
    Folder(FolderSource),
    Site(Box<Site>),
}

impl Source {
    pub(super) fn new(provider: &Provider) -> Self {
        match provider {
            Provider::Searxng(base) => Self::Engine(Engine::new(Api::Searxng, base.clone(), None)),
            Provider::Brave(base, key) => Self::Engine(Engine::new(Api::Brave, base.clone(), Some(key.clone()))),
            Provider::Tavily(base, key) => Self::Engine(Engine::new(Api::Tavily, base.clone(), Some(key.clone()))),
            Provider::Folder(path) => Self::Folder(FolderSource::new(path.clone())),
            Provider::Site(site) => Self::Site(Box::new(Site::new(site.clone()))),
        }
    }

    /// Searches for a query. Returns the pages, best first, and an optional warning. The call's events report the progress.
    ///
    /// # Errors
    /// The source did not answer.
    pub(super) async fn search(
        &self,
        query: &str,
        reader: &Reader<'_>,
    ) -> Result<(Vec<Hit>, Option<String>), ResearchProblem> {
        match self {
            Self::Engine(engine) => engine.search(query, reader).await,
            Self::Folder(folder) => folder.search(query, reader).await,
            Self::Site(site) => site.search(query, reader).await,
        }
    }

    /// Returns how rare the words of a question are in the source. `None` means that they must be estimated from
    /// the pages read.
    pub(super) async fn rarities(&self, question: &Question) -> Option<Rarities> {
        match self {
            Self::Engine(_) => None,
            Self::Folder(folder) => Some(folder.rarities(question).await),
            Self::Site(site) => Some(site.rarities(question).await),
        }
    }
}
