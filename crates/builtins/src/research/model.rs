//! A model that plans queries and writes answers. Its output is untrusted: see [`openskill_text::pages::support`].

use std::sync::Arc;
use std::time::Duration;

use openskill_model::{ConfigError, Message, ModelError, ModelRequest, Provider, ProviderConfig, Tokens};
use openskill_text::pages::document::{clip, collapse_whitespace};

use super::budget::Budget;
use super::problem::ResearchProblem;

/// The maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The time limit of one request.
const TIME: Duration = Duration::from_secs(60);

/// The maximum number of tokens in a plan, and in an answer.
const PLAN_TOKENS: u32 = 200;
const ANSWER_TOKENS: u32 = 1000;

/// The maximum number of queries in a plan, and the maximum length of a query.
const MAX_QUERIES: usize = 4;
const MAX_QUERY_BYTES: usize = 300;

const PLAN: &str = include_str!("plan_prompt.txt").trim_ascii_end();

const ANSWER: &str = include_str!("answer_prompt.txt").trim_ascii_end();

/// A model of the configured provider.
pub(crate) struct Model {
    /// A configuration error is reported when the model is called.
    provider: Arc<Result<Provider, ConfigError>>,
    /// The model name. Empty means the configured model.
    name: String,
}

impl Model {
    /// Creates the configured model. Reads the system's certificates.
    pub(crate) fn new(config: &ProviderConfig) -> Self {
        Self { provider: Arc::new(Provider::new(config.clone())), name: String::new() }
    }

    /// Selects another model of the same provider. An empty name means the configured model.
    pub(super) fn named(&self, name: &str) -> Self {
        Self { provider: Arc::clone(&self.provider), name: name.to_owned() }
    }

    /// Asks the model for queries that answer a question.
    ///
    /// # Errors
    /// The model does not answer.
    pub(super) async fn plan(&self, question: &str, budget: &Budget) -> Result<Vec<String>, ResearchProblem> {
        let said = self.ask(PLAN, question, PLAN_TOKENS, budget).await?;
        let lines =
            said.lines().map(|it| collapse_whitespace(it.trim_start_matches(['-', '*', ' ']))).map(|it| plain(&it));
        Ok(lines.filter(|it| !it.is_empty() && !it.contains("://")).take(MAX_QUERIES).collect())
    }

    /// Asks the model for an answer whose sentences cite quotes by number. The answer is untrusted.
    ///
    /// # Errors
    /// The model does not answer.
    pub(super) async fn word(
        &self,
        question: &str,
        quotes: &[&str],
        budget: &Budget,
    ) -> Result<String, ResearchProblem> {
        // A quote must not contain its own closing delimiter.
        let fenced = |(place, quote): (usize, &&str)| {
            format!("<quote number=\"{}\">{}</quote>\n", place + 1, quote.replace('<', "‹").replace('>', "›"))
        };
        let quotes: String = quotes.iter().enumerate().map(fenced).collect();
        let asked = format!("Untrusted quotes:\n{quotes}\nQuestion: {question}");
        self.ask(ANSWER, &asked, ANSWER_TOKENS, budget).await
    }

    /// Sends instructions and a text to the model, and returns its output of at most `max_tokens` tokens.
    ///
    /// # Errors
    /// The model does not answer, or the budget is exhausted.
    pub(crate) async fn ask(
        &self,
        system: &str,
        user: &str,
        max_tokens: u32,
        budget: &Budget,
    ) -> Result<String, ResearchProblem> {
        // Reserve the worst case: a token has at least one byte. Unused tokens are returned.
        let reserved = (system.len() + user.len()) as u64 + MESSAGE_TOKENS + u64::from(max_tokens);
        if !budget.reserve_tokens(reserved) {
            return Err(ResearchProblem::Budget("tokens"));
        }
        let provider = (*self.provider).as_ref()?;
        let model = provider.model(&self.name);
        let model = model.map_err(|_| ResearchProblem::Refused("the model name is not valid".to_owned()))?;
        let request = ModelRequest {
            system: system.to_owned(),
            messages: vec![Message::User(user.to_owned())],
            max_tokens,
            temperature: Some(0.0),
            ..ModelRequest::default()
        };
        let (time, mut ignore) = (TIME.min(budget.remaining()), |_: &str| ());
        let answer = match tokio::time::timeout(time, model.ask(&request, &mut ignore)).await {
            Ok(answer) => answer?,
            Err(_) if budget.remaining().is_zero() => return Err(ResearchProblem::Budget("time")),
            Err(_) => return Err(ResearchProblem::TooSlow(time)),
        };
        if answer.tokens != Tokens::default() {
            let used = answer.tokens.input.saturating_add(answer.tokens.output);
            budget.give_back_tokens(reserved.saturating_sub(used));
        }
        let text = clip(&answer.text, MAX_ANSWER_BYTES);
        Ok(clip(text, budget.take_bytes(text.len())).to_owned())
    }
}

impl From<&ConfigError> for ResearchProblem {
    fn from(error: &ConfigError) -> Self {
        // The error's own message names the settings of the agent's providers, which do not apply here.
        Self::Refused(match error {
            ConfigError::Base { reason, .. } => format!("its URL {reason}"),
            ConfigError::Key { reason, .. } => format!("its key {reason}"),
            ConfigError::Model { .. } | ConfigError::Name(_) => "the model name is not valid".to_owned(),
            ConfigError::Client(_) => error.to_string(),
        })
    }
}

impl From<ModelError> for ResearchProblem {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Unreachable { .. } => Self::Unreachable,
            ModelError::Refused { status: 429, .. } => Self::TooMany,
            ModelError::Refused { status, .. } => Self::Status(status),
            ModelError::CutOff { .. } => Self::BrokeOff,
            ModelError::Malformed { .. } | ModelError::Unreadable { .. } | ModelError::TooLarge { .. } => Self::Answer,
        }
    }
}

/// How many tokens the structure of a request may use, in addition to its texts.
const MESSAGE_TOKENS: u64 = 32;

fn plain(line: &str) -> String {
    let without_number = line.trim_start_matches(|it: char| it.is_ascii_digit());
    let line = match without_number.strip_prefix(['.', ')']) {
        Some(rest) if rest.starts_with(' ') => rest,
        _ => line,
    };
    clip(line.trim().trim_matches('"'), MAX_QUERY_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_line_without_its_number() {
        assert_eq!(plain("1. \"the Rhine\""), "the Rhine");
        assert_eq!(plain("3.5 inch disks"), "3.5 inch disks");
        assert_eq!(plain("2024 trends"), "2024 trends");
    }
}
