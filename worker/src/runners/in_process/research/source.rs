//! Where pages are found: a search engine, a folder or sites.

use openskill_research::question::Question;
use openskill_research::rarity::Rarities;

use super::budget::Budget;
use super::folder::Folder;
use super::page::Hit;
use super::problem::Problem;
use super::provider::{Api, Engine};
use super::read::Reader;
use super::site::Site;
use crate::config::research::{Provider, Secret};
use crate::events::EventSink;

/// A source.
pub(super) enum Source {
    Engine(Engine),
    Folder(Folder),
    Site(Box<Site>),
}

impl Source {
    pub(super) fn new(provider: &Provider) -> Self {
        match provider {
            Provider::Searxng(base) => Self::Engine(Engine::new(Api::Searxng, base.clone(), Secret::default())),
            Provider::Brave(base, key) => Self::Engine(Engine::new(Api::Brave, base.clone(), key.clone())),
            Provider::Tavily(base, key) => Self::Engine(Engine::new(Api::Tavily, base.clone(), key.clone())),
            Provider::Folder(path) => Self::Folder(Folder::new(path.clone())),
            Provider::Site(site) => Self::Site(Box::new(Site::new(site.clone()))),
        }
    }

    /// The pages of a query, the best first, and a warning. Events say how far it is.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn search(
        &self,
        query: &str,
        reader: &Reader,
        budget: &Budget,
        events: &EventSink,
    ) -> Result<(Vec<Hit>, Option<String>), Problem> {
        match self {
            Self::Engine(engine) => engine.search(query, &reader.fetcher, budget).await,
            Self::Folder(folder) => folder.search(query, reader, budget).await,
            Self::Site(site) => site.search(query, reader, budget, events).await,
        }
    }

    /// How rare words are in the source. None: that is to be told from the pages that were read.
    pub(super) async fn rarities(&self, question: &Question) -> Option<Rarities> {
        match self {
            Self::Engine(_) => None,
            Self::Folder(folder) => Some(folder.rarities(question).await),
            Self::Site(site) => Some(site.rarities(question).await),
        }
    }
}
