//! A scripted model, skills that count their runs, and an agent that uses both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use openskill_model::{Message, Model, ModelCall, ModelError, ModelRequest, ModelResponse, Models, Tokens};
use openskill_proto::v1::{
    self, Approval, Dialect, ErrorCode, SkillError, chat_event::Event, invoke_request::Arguments,
};
use parking_lot::Mutex;

use tokio::sync::Notify;

use crate::agent::{Accepted, Agent, Events, Input};
use crate::config::AgentConfig;
use crate::skills::{Caller, SkillGateway, Unreachable, UserIdentity, Validity};

/// A model whose answer depends only on the step and the request, so that it answers alike after a restart.
pub(super) type Script = dyn Fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError> + Send + Sync;

pub(super) struct Scripted(pub(super) Box<Script>);

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Model for Scripted {
    fn name(&self) -> &str {
        "test:scripted"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Openai
    }

    fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let rounds = request.messages.iter().rev().take_while(|it| !matches!(it, Message::User(_)));
            let step = rounds.filter(|it| matches!(it, Message::Results(_))).count();
            let reply = self.0(step, request)?;
            text(&reply.text);
            Ok(reply)
        })
    }
}

/// Returns a reply that contains only text.
pub(super) fn says(text: &str) -> Result<ModelResponse, ModelError> {
    Ok(ModelResponse { text: text.to_owned(), tokens: Tokens { input: 10, output: 5 }, ..ModelResponse::default() })
}

/// Returns a reply with calls, each given as name and arguments.
pub(super) fn calls(calls: &[(&str, &str)]) -> Result<ModelResponse, ModelError> {
    let call = |(name, arguments): &(&str, &str)| ModelCall {
        id: String::new(),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
        opaque: String::new(),
    };
    Ok(ModelResponse {
        calls: calls.iter().map(call).collect(),
        tokens: Tokens { input: 10, output: 5 },
        ..ModelResponse::default()
    })
}

/// The schema of the question that `quiz` asks.
pub(super) const SURE: &str = r#"{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}"#;

/// The content of the artifact that must be read from the gateway.
const LARGE: &[u8] = b"large";

/// Returns a picture with its content, a picture that must be read from the gateway, and a file that is not a
/// picture.
fn pictures() -> Vec<v1::Artifact> {
    use v1::artifact::Content;
    let one = |media_type: &str, content| v1::Artifact {
        media_type: media_type.to_owned(),
        size_bytes: 5,
        content: Some(content),
        ..v1::Artifact::default()
    };
    vec![
        one("image/png", Content::Data(b"small".to_vec().into())),
        one("image/webp", Content::Handle("w/1".to_owned())),
        one("application/pdf", Content::Data(b"paper".to_vec().into())),
    ]
}

/// Skills that only count their runs. A call whose arguments contain `draw` returns pictures. `wipe` is
/// destructive, `web` is untrusted, `fail` fails, `slow` never ends, and `strict` rejects all arguments except for
/// `{"ok":true}`. `again` is repeatable and idempotent. `purge` is destructive and idempotent. `quiz` is
/// idempotent, and asks the same question twice with different messages. `helper` is a sub-agent that uses two
/// requests, two calls and 100 tokens, and reads untrusted text if its task mentions the web.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// The skills that ran, with their arguments.
    pub(super) ran: Mutex<Vec<(String, String)>>,
    /// The grants that `helper` received from calling turns.
    pub(super) delegations: Mutex<Vec<v1::Delegation>>,
    /// The validity of credentials that are not valid.
    pub(super) validities: Mutex<BTreeMap<String, Validity>>,
    /// The answers that calls received.
    pub(super) answers: Mutex<Vec<v1::InputResponse>>,
    /// How often the skills have changed. Their version stays 1.0.0, and their hash is this number.
    pub(super) release: AtomicU64,
    /// Whether the skills change again when the next call arrives.
    pub(super) changes_soon: AtomicBool,
    answered: Notify,
}

/// A credential that may only call `read`.
pub(super) const NARROW: &str = "narrow";

impl Counting {
    pub(super) fn runs(&self, skill: &str) -> usize {
        self.ran.lock().iter().filter(|(id, _)| id == skill).count()
    }

    pub(super) fn all(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        self.ran.lock().iter().for_each(|(id, _)| *all.entry(id.clone()).or_default() += 1);
        all
    }

    async fn ask_twice(&self, events: &mut (dyn FnMut(v1::InvokeEvent) + Send)) {
        for file in ["a.txt", "b.txt"] {
            let required = v1::InputRequired {
                request_id: file.to_owned(),
                message: format!("Delete {file}?"),
                schema_json: SURE.to_owned(),
                ..v1::InputRequired::default()
            };
            events(v1::InvokeEvent {
                event: Some(v1::invoke_event::Event::InputRequired(required)),
                ..v1::InvokeEvent::default()
            });
            self.answered.notified().await;
        }
    }
}

fn skill(id: &str, release: u64) -> v1::Skill {
    let (read_only, is_destructive) = (id == "read" || id == "web", id == "wipe" || id == "purge");
    v1::Skill {
        id: id.to_owned(),
        version: "1.0.0".to_owned(),
        definition_hash: release.to_string(),
        destructive: is_destructive,
        idempotent: ["again", "purge", "quiz"].contains(&id),
        repeatable: id == "again",
        untrusted: id == "web",
        read_only,
        status: v1::SkillStatus::Available.into(),
        approval: if is_destructive { Approval::Ask } else { Approval::Never }.into(),
        agent: (id == "helper").then(v1::AgentDefinition::default),
        ..v1::Skill::default()
    }
}

fn arguments(request: &v1::InvokeRequest) -> String {
    match &request.arguments {
        Some(Arguments::InputJson(json)) => json.clone(),
        _ => String::new(),
    }
}

#[tonic::async_trait]
impl SkillGateway for Counting {
    fn validity(&self, owner: &UserIdentity) -> Validity {
        self.validities.lock().get(&owner.credential).copied().unwrap_or(Validity::Valid)
    }

    async fn list(&self, caller: &Caller) -> Result<Vec<v1::Skill>, Unreachable> {
        let ids = ["again", "fail", "helper", "purge", "quiz", "read", "slow", "strict", "web", "wipe", "write"];
        let is_seen = |id: &&str| caller.owner.credential != NARROW || *id == "read";
        let release = self.release.load(Ordering::Relaxed);
        Ok(ids.into_iter().filter(is_seen).map(|id| skill(id, release)).collect())
    }

    async fn export(
        &self,
        _: &Caller,
        request: v1::ExportToolsRequest,
    ) -> Result<v1::ExportToolsResponse, Unreachable> {
        let skill_ids = request.skill_ids.into_iter().map(|id| (id.clone(), id)).collect();
        Ok(v1::ExportToolsResponse { skill_ids, ..v1::ExportToolsResponse::default() })
    }

    async fn prepare(&self, _: &Caller, request: v1::InvokeRequest) -> Result<v1::PreparedCall, Unreachable> {
        let json = arguments(&request);
        let fits = request.skill_id != "strict" || json == r#"{"ok":true}"#;
        let error = (!fits).then(|| SkillError::new(ErrorCode::InvalidArgument, "ok must be true"));
        let repair = v1::Repair { path: "/token".to_owned(), before_json: json.clone(), ..v1::Repair::default() };
        let repairs = json.contains("token").then_some(repair).into_iter().collect();
        let skill = skill(&request.skill_id, self.release.load(Ordering::Relaxed));
        Ok(v1::PreparedCall {
            skill: Some(skill),
            repairs,
            skill_id: request.skill_id,
            version: "1.0.0".to_owned(),
            arguments_json: if error.is_none() { json } else { String::new() },
            error,
            ..v1::PreparedCall::default()
        })
    }

    async fn invoke(
        &self,
        _: &Caller,
        request: v1::InvokeRequest,
        events: &mut (dyn FnMut(v1::InvokeEvent) + Send),
    ) -> v1::SkillResult {
        if self.changes_soon.swap(false, Ordering::Relaxed) {
            self.release.fetch_add(1, Ordering::Relaxed);
        }
        if request.definition_hash != self.release.load(Ordering::Relaxed).to_string() {
            let error = Some(SkillError::unavailable("the skill changed"));
            return v1::SkillResult { error, ..v1::SkillResult::default() };
        }
        let json = arguments(&request);
        self.ran.lock().push((request.skill_id.clone(), json.clone()));
        if request.skill_id == "slow" {
            std::future::pending::<()>().await;
        }
        if request.skill_id == "quiz" {
            self.ask_twice(events).await;
        }
        let is_lost = json.contains("lost");
        let agent = request.delegation.and_then(|given| {
            self.delegations.lock().push(given);
            let untrusted = json.contains("web");
            let used =
                v1::AgentUse { input_tokens: 100, iterations: 2, tool_calls: 2, untrusted, ..v1::AgentUse::default() };
            (!is_lost).then_some(used)
        });
        if is_lost {
            let error = SkillError { may_have_run: true, ..SkillError::unavailable("the gateway went away") };
            return v1::SkillResult { error: Some(error), ..v1::SkillResult::default() };
        }
        let meta = Some(v1::Meta { agent, ..v1::Meta::default() });
        let error = (request.skill_id == "fail").then(|| SkillError::new(ErrorCode::ExecutionError, "it always fails"));
        let success = error.is_none();
        let output = success.then(|| v1::skill_result::Output::DataJson(json.clone()));
        let artifacts = if json.contains("draw") { pictures() } else { Vec::new() };
        v1::SkillResult { success, error, output, meta, artifacts, ..v1::SkillResult::default() }
    }

    async fn read_artifact(
        &self,
        _: &Caller,
        request: v1::ReadArtifactRequest,
    ) -> Result<v1::ReadArtifactResponse, Unreachable> {
        // The content arrives in two pieces.
        let at = usize::try_from(request.offset).unwrap_or(usize::MAX);
        let data = LARGE.get(at..LARGE.len().min(at + 3)).unwrap_or_default().to_vec().into();
        let size_bytes = LARGE.len() as u64;
        Ok(v1::ReadArtifactResponse { data, size_bytes, ..v1::ReadArtifactResponse::default() })
    }

    async fn answer(&self, _: &Caller, response: v1::InputResponse) -> Result<bool, Unreachable> {
        self.answers.lock().push(response);
        self.answered.notify_one();
        Ok(true)
    }
}

/// An agent with a scripted model and counting skills.
pub(super) struct Scene {
    pub(super) agent: Agent,
    pub(super) skills: Arc<Counting>,
    config: AgentConfig,
    models: Models,
}

impl Scene {
    pub(super) async fn new(
        script: impl Fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    ) -> Self {
        Self::with(AgentConfig::default(), script).await
    }

    pub(super) async fn with(
        config: AgentConfig,
        script: impl Fn(usize, &ModelRequest) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    ) -> Self {
        let skills = Arc::new(Counting::default());
        let models = Models::from_models(vec![Arc::new(Scripted(Box::new(script)))]);
        let shared: Arc<dyn SkillGateway> = Arc::clone(&skills) as _;
        let agent = Agent::start(config.clone(), None, models.clone(), shared).await.unwrap();
        Self { agent, skills, config, models }
    }

    /// Starts another agent with the log of one conversation, as after a restart. Also returns the conversation's
    /// new id.
    pub(super) async fn restarted(self, principal: &str, conversation: &str) -> (Self, String) {
        self.agent.shutdown().await;
        let entries = self.agent.journal().read(conversation, 0, 1000).await.unwrap();
        let shared: Arc<dyn SkillGateway> = Arc::clone(&self.skills) as _;
        let agent = Agent::start(self.config.clone(), None, self.models.clone(), shared).await.unwrap();
        let id = agent.journal().create(principal).await.unwrap();
        agent.journal().append(&id, entries.into_iter().map(|it| it.entry).collect()).await.unwrap();
        agent.recover().await.unwrap();
        (Self { agent, ..self }, id)
    }

    /// Waits until no turn is left in memory.
    pub(super) async fn until_parked(&self) {
        let left = async {
            while self.agent.turns_in_memory() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), left).await.expect("the turns leave the memory");
    }

    /// Sends a message that begins a conversation.
    pub(super) async fn begin(&self) -> Accepted {
        self.say("", v1::UserMessage { text: "do it".to_owned(), ..v1::UserMessage::default() }).await
    }

    pub(super) async fn say(&self, conversation: &str, message: v1::UserMessage) -> Accepted {
        self.agent.send(&Caller::default(), conversation, Input::Message(message)).await.unwrap()
    }

    /// Runs a complete turn. Returns its stored events.
    pub(super) async fn turn(&self) -> Vec<Event> {
        let mut accepted = self.begin().await;
        until(&mut accepted.events, |event| matches!(event, Event::Done(_))).await
    }
}

/// Returns stored events up to and including the first for which `wanted` returns true.
pub(super) async fn until(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(20), events.next());
        let event =
            next.await.unwrap_or_else(|_| panic!("nothing follows {seen:?}")).expect("the stream goes on").unwrap();
        if event.number == 0 {
            continue;
        }
        seen.push(event.event.unwrap());
        if seen.last().is_some_and(&wanted) {
            return seen;
        }
    }
}

/// Returns the results among the events: call id, success, content.
pub(super) fn results(events: &[Event]) -> Vec<v1::ToolResult> {
    let results = events.iter().filter_map(|it| match it {
        Event::ToolResult(result) => Some(result.clone()),
        _ => None,
    });
    results.collect()
}

/// Returns the end of the turn.
pub(super) fn done(events: &[Event]) -> v1::TurnDone {
    match events.last() {
        Some(Event::Done(done)) => done.clone(),
        other => panic!("the turn did not end: {other:?}"),
    }
}
