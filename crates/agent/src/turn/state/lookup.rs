//! What the state says of one thing: a call, a request, the turn.

use super::{Course, State};
use crate::entry::{
    Answered, ApprovalAsked, ApprovalDecided, Asked, Called, Calling, Definition, Entry, Replied, Stamped, Started,
    Used,
};

impl State {
    /// The current turn's beginning.
    pub(crate) fn started(&self) -> Option<&Started> {
        match &self.entries.get(self.turn)?.entry {
            Entry::Started(it) => Some(it),
            _ => None,
        }
    }

    /// All entries.
    pub(crate) fn entries(&self) -> &[Stamped] {
        &self.entries
    }

    fn turn_entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().skip(self.turn).map(|it| &it.entry)
    }

    /// The last reply of the turn.
    pub(crate) fn reply_text(&self) -> &str {
        let text = self.turn_entries().rev().find_map(|it| match it {
            Entry::Replied(replied) if !replied.text.is_empty() => Some(replied.text.as_str()),
            _ => None,
        });
        text.unwrap_or_default()
    }

    /// The last reply of the turn.
    pub(crate) fn last_reply(&self) -> Option<&Replied> {
        self.turn_entries().rev().find_map(|it| match it {
            Entry::Replied(replied) => Some(replied),
            _ => None,
        })
    }

    /// What the turn used.
    pub(crate) fn used(&self) -> Used {
        self.used
    }

    /// Whether the conversation read text of strangers.
    pub(crate) fn is_tainted(&self) -> bool {
        self.is_tainted
    }

    /// Whether the user allowed this skill in this definition for the conversation.
    pub(crate) fn is_granted(&self, definition: &Definition) -> bool {
        self.grants.contains(definition)
    }

    /// How far a call has come: what happened last counts.
    pub(crate) fn course(&self, call_id: &str) -> Course<'_> {
        let began = self.calling.get(call_id).copied();
        let asked = self.approval_of.get(call_id).and_then(|id| self.approvals.get(id)).copied();
        match self.at(began.max(asked).as_ref()) {
            Some(Entry::Calling(calling)) => Course::Began(calling),
            Some(Entry::ApprovalAsked(asked)) => Course::Asked(asked, self.decision(&asked.request_id)),
            _ => Course::New,
        }
    }

    /// The request for approval of a call that waits for the user.
    pub(crate) fn open_approval_of(&self, call_id: &str) -> Option<String> {
        self.approval_of.get(call_id).filter(|id| !self.decided.contains_key(*id)).cloned()
    }

    /// Whether an id was given to a call before.
    pub(crate) fn is_used(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// The number of the next entry.
    pub(crate) fn next_number(&self) -> u64 {
        self.entries.last().map_or(1, |it| it.number + 1)
    }

    /// The result of a call.
    pub(crate) fn result(&self, call_id: &str) -> Option<&Called> {
        match self.at(self.called.get(call_id))? {
            Entry::Called(it) => Some(it),
            _ => None,
        }
    }

    /// A call that began.
    pub(crate) fn begun(&self, call_id: &str) -> Option<&Calling> {
        match self.at(self.calling.get(call_id))? {
            Entry::Calling(it) => Some(it),
            _ => None,
        }
    }

    /// Whether a call began, has no result, and must not run again.
    pub(crate) fn is_lost(&self, call_id: &str) -> bool {
        !self.called.contains_key(call_id) && self.begun(call_id).is_some_and(|it| !it.is_idempotent)
    }

    /// A request for approval.
    pub(crate) fn approval(&self, request_id: &str) -> Option<&ApprovalAsked> {
        match self.at(self.approvals.get(request_id))? {
            Entry::ApprovalAsked(it) => Some(it),
            _ => None,
        }
    }

    /// A decision.
    pub(crate) fn decision(&self, request_id: &str) -> Option<&ApprovalDecided> {
        match self.at(self.decided.get(request_id))? {
            Entry::ApprovalDecided(it) => Some(it),
            _ => None,
        }
    }

    /// A question.
    pub(crate) fn question(&self, request_id: &str) -> Option<&Asked> {
        match self.at(self.asked.get(request_id))? {
            Entry::Asked(it) => Some(it),
            _ => None,
        }
    }

    /// Whether this names the answer to a question of this conversation, as references to secrets do. Ids of requests are not
    /// guessable.
    pub(crate) fn is_secret_name(&self, name: &str) -> bool {
        let asked = name.split_once('/').and_then(|(request_id, id)| Some((self.question(request_id)?, id)));
        asked.is_some_and(|(asked, id)| asked.questions.iter().any(|it| it.id == id))
    }

    /// The questions of a call since it began, in order, with when they were asked.
    pub(crate) fn questions_of(&self, call_id: &str) -> impl Iterator<Item = (&Asked, u64)> {
        let began = self.calling.get(call_id).copied().unwrap_or(self.turn);
        self.entries.iter().skip(began).filter_map(move |it| match &it.entry {
            Entry::Asked(asked) if asked.call_id == call_id => Some((asked, it.time_us)),
            _ => None,
        })
    }

    /// The answer to a question.
    pub(crate) fn answer(&self, request_id: &str) -> Option<&Answered> {
        match self.at(self.answered.get(request_id))? {
            Entry::Answered(it) => Some(it),
            _ => None,
        }
    }

    /// The skill whose call a request belongs to. None for the agent's own questions.
    pub(crate) fn skill_of_request(&self, request_id: &str) -> Option<&str> {
        let asks = || self.begun(&self.question(request_id)?.call_id).filter(|it| !it.version.is_empty());
        let approval = self.approval(request_id).map(|it| it.skill_id.as_str());
        approval.or_else(|| asks().map(|it| it.skill_id.as_str()))
    }

    /// The requests of this turn that wait for the user.
    pub(crate) fn open_requests(&self) -> Vec<String> {
        let open = self.turn_entries().filter_map(|it| match it {
            Entry::ApprovalAsked(asked) if !self.decided.contains_key(&asked.request_id) => Some(&asked.request_id),
            Entry::Asked(asked) if !self.answered.contains_key(&asked.request_id) => Some(&asked.request_id),
            _ => None,
        });
        open.cloned().collect()
    }

    fn at(&self, index: Option<&usize>) -> Option<&Entry> {
        Some(&self.entries.get(*index?)?.entry)
    }
}
