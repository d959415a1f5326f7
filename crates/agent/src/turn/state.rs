//! The state of a turn: a fold over the conversation's entries. Does no I/O.
//!
//! A turn that resumes after a crash folds the same entries and thus reaches the same state.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use openskill_model::ModelCall;
use openskill_proto::v1::{self, ErrorCode};

use crate::entry::{
    ApprovalAsked, ApprovalDecided, Called, Calling, Decided, Entry, Mode, Replied, SkillRevision, Stamped, TurnUsage,
};

mod lookup;

/// How many times in a row a skill may fail with the same error before the turn stops making calls.
const EQUAL_ERRORS: u32 = 3;

/// How many times in a row the same call may be made before the turn stops making calls.
const EQUAL_CALLS: u32 = 3;

/// The state of a conversation during a turn, derived from its entries.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) entries: Vec<Stamped>,
    /// The index of the last `Started` entry.
    turn: usize,
    /// The indexes of entries of one kind, by call id or request id.
    called: HashMap<String, usize>,
    calling: HashMap<String, usize>,
    asked: HashMap<String, usize>,
    answered: HashMap<String, usize>,
    approvals: HashMap<String, usize>,
    decided: HashMap<String, usize>,
    /// The id of the last approval request, by call id.
    approval_of: HashMap<String, String>,
    ids: HashSet<String>,
    grants: HashSet<SkillRevision>,
    /// Whether the conversation has read untrusted text.
    pub(crate) is_tainted: bool,
    /// The usage of the current turn.
    pub(crate) used: TurnUsage,
    active_us: u64,
    refusals: u32,
    errors: (String, u32),
    calls: CallStreak,
}

/// A series of identical calls.
#[derive(Debug, Default)]
struct CallStreak {
    skill_id: String,
    arguments: String,
    /// The id of the call in the series that actually ran.
    first: String,
    count: u32,
}

/// The stage that a call has reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallStage<'a> {
    /// Nothing has been decided. The call still has the model's arguments.
    New,
    /// Approval was requested, and the user may have decided.
    Asked(&'a ApprovalAsked, Option<&'a ApprovalDecided>),
    /// The call began with its final arguments.
    Began(&'a Calling),
}

/// What a turn does next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Nothing to do: the turn has ended, or none has begun.
    Nothing,
    /// Call the model.
    Ask,
    /// Run these calls of a reply.
    Settle(Vec<ModelCall>),
    /// End the turn. The last reply is the answer.
    End,
}

impl State {
    /// Builds the state from entries.
    pub(crate) fn from_entries(entries: Vec<Stamped>) -> Self {
        let mut state = Self::default();
        entries.into_iter().for_each(|it| state.apply(it));
        state
    }

    /// Applies another entry.
    pub(crate) fn apply(&mut self, stamped: Stamped) {
        let index = self.entries.len();
        self.pass_time(stamped.time_us);
        match &stamped.entry {
            Entry::Started(it) => self.begin(index, it.delegated.as_ref().is_some_and(|it| it.tainted)),
            Entry::Replied(it) => self.reply(it),
            Entry::ApprovalAsked(it) => {
                self.approvals.insert(it.request_id.clone(), index);
                self.approval_of.insert(it.call_id.clone(), it.request_id.clone());
            }
            Entry::ApprovalDecided(it) => self.decide(it, index),
            Entry::Calling(it) => self.call(it, index),
            Entry::Asked(it) => drop(self.asked.insert(it.request_id.clone(), index)),
            Entry::Answered(it) => drop(self.answered.insert(it.request_id.clone(), index)),
            Entry::Called(it) => self.end_call(it, index),
            Entry::Summarized(it) => {
                self.used.input_tokens = self.used.input_tokens.saturating_add(it.tokens);
                self.used.cost_micros = self.used.cost_micros.saturating_add(it.cost_micros);
            }
            Entry::Waiting { .. } | Entry::Ended(_) => {}
        }
        self.entries.push(stamped);
    }

    fn begin(&mut self, index: usize, is_tainted: bool) {
        self.turn = index;
        self.used = TurnUsage::default();
        self.is_tainted |= is_tainted;
        (self.active_us, self.refusals) = (0, 0);
        (self.errors, self.calls) = ((String::new(), 0), CallStreak::default());
    }

    fn reply(&mut self, it: &Replied) {
        self.ids.extend(it.calls.iter().map(|call| call.id.clone()));
        self.used.add(TurnUsage {
            input_tokens: it.input_tokens,
            output_tokens: it.output_tokens,
            iterations: u32::from(!it.is_last),
            tool_calls: 0,
            cost_micros: it.cost_micros,
        });
    }

    fn decide(&mut self, it: &ApprovalDecided, index: usize) {
        self.decided.insert(it.request_id.clone(), index);
        if it.decision == Decided::AllowConversation
            && let Some(asked) = self.approval(&it.request_id)
        {
            let grant = asked.skill.clone();
            self.grants.insert(grant);
        }
    }

    fn call(&mut self, it: &Calling, index: usize) {
        let is_new = self.calling.insert(it.call_id.clone(), index).is_none();
        // Built-in tools have no version and don't count. A call that runs again after a crash counts once.
        if !it.skill.version.is_empty() && is_new {
            self.used.tool_calls += 1;
            self.calls = CallStreak {
                skill_id: it.skill.skill_id.clone(),
                arguments: compact(&it.arguments),
                first: it.call_id.clone(),
                count: 1,
            };
        }
    }

    fn end_call(&mut self, it: &Called, index: usize) {
        self.called.insert(it.call_id.clone(), index);
        self.is_tainted |= it.untrusted;
        if let Some(used) = it.used {
            self.used.add(used);
        }
        if !it.replays.is_empty() {
            self.calls.count += 1;
            return;
        }
        if it.outcome.is_success() {
            (self.refusals, self.errors) = (0, (String::new(), 0));
            return;
        }
        self.refusals = if self.calling.contains_key(&it.call_id) { 0 } else { self.refusals + 1 };
        let error = format!("{}\n{}\n{}", it.name, it.outcome.code, it.outcome.message);
        if self.errors.0 == error {
            self.errors.1 += 1;
        } else {
            self.errors = (error, 1);
        }
    }

    /// Adds the time during which the turn worked, without the time that it spent waiting for its user.
    fn pass_time(&mut self, now: u64) {
        if let Some(last) = self.entries.last()
            && !matches!(last.entry, Entry::Waiting { .. } | Entry::Ended(_))
        {
            self.active_us += now.saturating_sub(last.time_us);
        }
    }

    /// Returns the next step.
    pub(crate) fn next(&self) -> Next {
        if self.is_over() {
            return Next::Nothing;
        }
        let Some(replied) = self.last_reply() else { return Next::Ask };
        if replied.calls.is_empty() {
            return Next::End;
        }
        let open: Vec<_> = replied.calls.iter().filter(|it| !self.called.contains_key(&it.id)).cloned().collect();
        match (open.is_empty(), &replied.routing) {
            (false, _) => Next::Settle(open),
            // The result of the call that the router chose is the answer.
            (true, Some(_)) => Next::End,
            (true, None) => Next::Ask,
        }
    }

    /// Returns whether no turn is running or waiting.
    pub(crate) fn is_over(&self) -> bool {
        self.entries.last().is_none_or(|it| matches!(it.entry, Entry::Ended(_)))
    }

    /// Returns the reached limit that forbids another model request with tools, if any.
    pub(crate) fn limit(&self) -> Option<&'static str> {
        let (limits, used) = (self.turn_start()?.limits, self.used);
        let is_reached = |used: u64, most: u64| most > 0 && used >= most;
        let tokens = used.input_tokens.saturating_add(used.output_tokens);
        let all = [
            ("max_tool_calls", used.tool_calls >= limits.max_tool_calls),
            ("max_tokens", is_reached(tokens, limits.max_tokens)),
            ("max_cost_micros", is_reached(used.cost_micros, limits.max_cost_micros)),
            ("timeout_ms", self.active_us >= limits.timeout_ms.saturating_mul(1000)),
            ("max_validation_retries", self.refusals > limits.max_validation_retries),
            ("repeated_error", self.errors.1 >= EQUAL_ERRORS),
            ("repeated_call", self.calls.count >= EQUAL_CALLS),
            // Must come last: see `call_limit`.
            ("max_iterations", used.iterations >= limits.max_iterations),
        ];
        all.into_iter().find(|(_, is_reached)| *is_reached).map(|(name, _)| name)
    }

    /// Returns the reached limit that forbids another call, if any.
    pub(crate) fn call_limit(&self) -> Option<&'static str> {
        // The calls in the last permitted reply may still run. Only another request is forbidden.
        self.limit().filter(|limit| *limit != "max_iterations")
    }

    /// Returns the turn's remaining time.
    pub(crate) fn time_left(&self) -> Duration {
        let all = self.turn_start().map_or(0, |it| it.limits.timeout_ms.saturating_mul(1000));
        Duration::from_micros(all.saturating_sub(self.active_us))
    }

    /// Returns the turn's remaining tokens. `None` if there is no limit.
    pub(crate) fn tokens_left(&self) -> Option<u64> {
        let most = self.turn_start()?.limits.max_tokens;
        let used = self.used.input_tokens.saturating_add(self.used.output_tokens);
        (most > 0).then(|| most.saturating_sub(used))
    }

    /// Returns the turn's remaining limits, as the grant for a sub-agent.
    pub(crate) fn delegation(&self) -> v1::Delegation {
        let Some(started) = self.turn_start() else { return v1::Delegation::default() };
        let (limits, used) = (started.limits, self.used);
        v1::Delegation {
            depth: started.delegated.as_ref().map_or(0, |it| it.depth) + 1,
            max_tool_calls: Some(limits.max_tool_calls.saturating_sub(used.tool_calls)),
            max_iterations: Some(limits.max_iterations.saturating_sub(used.iterations)),
            max_tokens: self.tokens_left(),
            max_cost_micros: (limits.max_cost_micros > 0)
                .then(|| limits.max_cost_micros.saturating_sub(used.cost_micros)),
            read_only: started.mode == Mode::ReadOnly,
            tainted: self.is_tainted,
        }
    }

    /// Returns the result of the last call, if this call is identical and would have the same result.
    pub(crate) fn same_as_last(&self, skill_id: &str, arguments: &str) -> Option<&Called> {
        let streak = &self.calls;
        let is_same = streak.skill_id == skill_id && streak.count > 0 && streak.arguments == compact(arguments);
        self.result(&streak.first).filter(|it| is_same && !may_change(it.outcome.code))
    }
}

/// Returns whether a repeated call may have a different result right after this error.
fn may_change(code: i32) -> bool {
    use ErrorCode::{
        CircuitOpen, McpNetworkError, McpTimeout, NetworkError, Overloaded, RateLimited, Timeout, Unavailable,
    };
    let codes = [CircuitOpen, McpNetworkError, McpTimeout, NetworkError, Overloaded, RateLimited, Timeout, Unavailable];
    codes.into_iter().any(|it| i32::from(it) == code)
}

/// Removes whitespace outside strings from JSON text, to compare arguments regardless of their formatting.
fn compact(json: &str) -> String {
    let (mut is_string, mut is_escaped) = (false, false);
    let mut kept = String::with_capacity(json.len());
    for c in json.chars() {
        if !is_string && c.is_ascii_whitespace() {
            continue;
        }
        kept.push(c);
        if is_escaped {
            is_escaped = false;
        } else if is_string && c == '\\' {
            is_escaped = true;
        } else if c == '"' {
            is_string = !is_string;
        }
    }
    kept
}
