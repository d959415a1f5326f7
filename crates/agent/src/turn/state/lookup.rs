//! Looks up individual facts in the state, about a call, a request or the turn.

use super::{CallStage, State};
use crate::entry::{
    Answered, ApprovalAsked, ApprovalDecided, Called, Calling, Entry, QuestionsAsked, Replied, SkillRevision, Started,
};

impl State {
    /// Returns the first entry of the current turn.
    pub(crate) fn turn_start(&self) -> Option<&Started> {
        let Entry::Started(it) = &self.entries.get(self.turn)?.entry else { return None };
        Some(it)
    }

    fn turn_entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().skip(self.turn).map(|it| &it.entry)
    }

    /// Returns the text of the last reply in the current turn.
    pub(crate) fn reply_text(&self) -> &str {
        let text = self.turn_entries().rev().find_map(|it| match it {
            Entry::Replied(replied) if !replied.text.is_empty() => Some(replied.text.as_str()),
            _ => None,
        });
        text.unwrap_or_default()
    }

    /// Returns the last reply in the current turn.
    pub(crate) fn last_reply(&self) -> Option<&Replied> {
        self.turn_entries().rev().find_map(|it| match it {
            Entry::Replied(replied) => Some(replied),
            _ => None,
        })
    }

    /// Returns whether the user allowed this revision of the skill for the conversation.
    pub(crate) fn is_granted(&self, revision: &SkillRevision) -> bool {
        self.grants.contains(revision)
    }

    /// Returns the stage of a call, according to its latest entry.
    pub(crate) fn stage(&self, call_id: &str) -> CallStage<'_> {
        let began = self.calling.get(call_id).copied();
        let asked = self.approval_of.get(call_id).and_then(|id| self.approvals.get(id)).copied();
        match self.at(began.max(asked).as_ref()) {
            Some(Entry::Calling(calling)) => CallStage::Began(calling),
            Some(Entry::ApprovalAsked(asked)) => CallStage::Asked(asked, self.decision(&asked.request_id)),
            _ => CallStage::New,
        }
    }

    /// Returns the id of the open approval request for a call.
    pub(crate) fn open_approval_of(&self, call_id: &str) -> Option<String> {
        self.approval_of.get(call_id).filter(|id| !self.decided.contains_key(*id)).cloned()
    }

    /// Returns whether an earlier call has this id.
    pub(crate) fn is_used(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.entries.last().map_or(1, |it| it.number + 1)
    }

    /// Returns the result of a call.
    pub(crate) fn result(&self, call_id: &str) -> Option<&Called> {
        let Entry::Called(it) = self.at(self.called.get(call_id))? else { return None };
        Some(it)
    }

    /// Returns the entry that records the beginning of a call.
    pub(crate) fn begun_call(&self, call_id: &str) -> Option<&Calling> {
        let Entry::Calling(it) = self.at(self.calling.get(call_id))? else { return None };
        Some(it)
    }

    /// Returns whether a call began, has no result, and must not run again.
    pub(crate) fn is_lost(&self, call_id: &str) -> bool {
        !self.called.contains_key(call_id) && self.begun_call(call_id).is_some_and(|it| !it.is_idempotent)
    }

    /// Returns the approval request with this id.
    pub(crate) fn approval(&self, request_id: &str) -> Option<&ApprovalAsked> {
        let Entry::ApprovalAsked(it) = self.at(self.approvals.get(request_id))? else { return None };
        Some(it)
    }

    /// Returns the decision about the request with this id.
    pub(crate) fn decision(&self, request_id: &str) -> Option<&ApprovalDecided> {
        let Entry::ApprovalDecided(it) = self.at(self.decided.get(request_id))? else { return None };
        Some(it)
    }

    /// Returns the question request with this id.
    pub(crate) fn question(&self, request_id: &str) -> Option<&QuestionsAsked> {
        let Entry::Asked(it) = self.at(self.asked.get(request_id))? else { return None };
        Some(it)
    }

    /// Returns whether a name has the form `request id/question id` of a secret that answers a question in this
    /// conversation. Request ids can't be guessed.
    pub(crate) fn is_secret_name(&self, name: &str) -> bool {
        let asked = name.split_once('/').and_then(|(request_id, id)| Some((self.question(request_id)?, id)));
        asked.is_some_and(|(asked, id)| asked.questions.iter().any(|it| it.id == id))
    }

    /// Returns the questions asked by a call since it began, in order, each with the time at which it was asked.
    pub(crate) fn questions_of(&self, call_id: &str) -> impl Iterator<Item = (&QuestionsAsked, u64)> {
        let began = self.calling.get(call_id).copied().unwrap_or(self.turn);
        self.entries.iter().skip(began).filter_map(move |it| match &it.entry {
            Entry::Asked(asked) if asked.call_id == call_id => Some((asked, it.time_us)),
            _ => None,
        })
    }

    /// Returns the answers to the request with this id.
    pub(crate) fn answer(&self, request_id: &str) -> Option<&Answered> {
        let Entry::Answered(it) = self.at(self.answered.get(request_id))? else { return None };
        Some(it)
    }

    /// Returns the skill whose call made a request. `None` for questions that the agent itself asks.
    pub(crate) fn skill_of_request(&self, request_id: &str) -> Option<&str> {
        let asks = || self.begun_call(&self.question(request_id)?.call_id).filter(|it| !it.skill.version.is_empty());
        let approval = self.approval(request_id).map(|it| it.skill.skill_id.as_str());
        approval.or_else(|| asks().map(|it| it.skill.skill_id.as_str()))
    }

    /// Returns the ids of this turn's requests that wait for the user.
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
