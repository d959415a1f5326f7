//! Ranks tools by what a task in English or Chinese is about.
//!
//! The gateway ranks the skills that there are with it, and a worker those that could be installed. Pure: no clock, no I/O.
//!
//! - [`rank`](mod@rank): tools as documents, and how well they fit a query
//! - [`terms`](mod@terms): the words of a task; `chinese`: what they are in English; `english`: what tools call it

mod chinese;
mod english;
pub mod rank;
pub mod terms;

use terms::{Term, terms, unspaced};

/// What a task asks for.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its words, in its order.
    pub terms: Vec<Term>,
    /// What documents are ranked by: the words in English, and what of the task is written without spaces.
    pub query: String,
}

impl Task {
    /// Reads the first 4000 characters of a task.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let terms = terms(text);
        let mut query: String = terms.iter().map(|it| format!("{} ", it.meant)).collect();
        query.push_str(&unspaced(text));
        Self { terms, query }
    }
}
