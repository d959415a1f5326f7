//! What clients see of an entry.

use openskill_proto::v1::{self, chat_event::Event};

use super::{
    Answered, ApprovalAsked, ApprovalDecided, Asked, Called, Calling, Decided, End, Ended, Entry, Mode, Question,
    QuestionKind, Replied, Stamped, Started, Used,
};
use crate::context::result::render;

/// The event of an entry.
pub fn event(conversation_id: &str, stamped: &Stamped) -> v1::ChatEvent {
    v1::ChatEvent {
        number: stamped.number,
        conversation_id: conversation_id.to_owned(),
        time_us: stamped.time_us,
        event: Some(of(&stamped.entry)),
    }
}

/// An event that is shown and not kept.
pub fn ephemeral(conversation_id: &str, time_us: u64, event: Event) -> v1::ChatEvent {
    v1::ChatEvent { number: 0, conversation_id: conversation_id.to_owned(), time_us, event: Some(event) }
}

/// The usage of a turn, as an event.
pub fn usage(used: Used) -> v1::Usage {
    v1::Usage {
        input_tokens: used.input_tokens,
        output_tokens: used.output_tokens,
        iterations: used.iterations,
        tool_calls: used.tool_calls,
        cost_micros: used.cost_micros,
    }
}

fn of(entry: &Entry) -> Event {
    match entry {
        Entry::Started(it) => Event::Started(started(it)),
        Entry::Replied(it) => Event::Reply(reply(it)),
        Entry::ApprovalAsked(it) => Event::ApprovalRequired(approval(it)),
        Entry::ApprovalDecided(it) => Event::Decided(decided(it)),
        Entry::Calling(it) => Event::ToolCall(calling(it)),
        Entry::Asked(it) => Event::InputRequired(asked(it)),
        Entry::Answered(it) => Event::Answered(answered(it)),
        Entry::Called(it) => Event::ToolResult(called(it)),
        Entry::Waiting { request_ids } => Event::Waiting(v1::TurnWaiting { request_ids: request_ids.clone() }),
        Entry::Summarized(it) => Event::Summarized(v1::Summarized { until: it.until, text: it.text.clone() }),
        Entry::Ended(it) => Event::Done(ended(it)),
    }
}

fn started(it: &Started) -> v1::TurnStarted {
    let mode = match it.mode {
        Mode::Ask => v1::ApprovalMode::Ask,
        Mode::ReadOnly => v1::ApprovalMode::ReadOnly,
        Mode::Auto => v1::ApprovalMode::Auto,
    };
    v1::TurnStarted { text: it.text.clone(), model: it.model.clone(), mode: mode.into(), trace_id: it.trace_id.clone() }
}

fn reply(it: &Replied) -> v1::ModelReply {
    v1::ModelReply {
        text: it.text.clone(),
        call_ids: it.calls.iter().map(|call| call.id.clone()).collect(),
        routing: it
            .routing
            .as_ref()
            .map(|routing| v1::Routing { selected_skill_id: routing.skill_id.clone(), reason: routing.reason.clone() }),
    }
}

fn approval(it: &ApprovalAsked) -> v1::ApprovalRequested {
    v1::ApprovalRequested {
        request_id: it.request_id.clone(),
        call_id: it.call_id.clone(),
        skill_id: it.skill_id.clone(),
        version: it.version.clone(),
        arguments_json: it.arguments.clone(),
        repairs: it.repairs.iter().cloned().map(Into::into).collect(),
        reason: it.reason.clone(),
        expires_us: it.expires_us,
        tainted: it.tainted,
    }
}

fn decided(it: &ApprovalDecided) -> v1::ApprovalDecided {
    let decision = match it.decision {
        Decided::Allow => v1::Decision::Allow,
        Decided::AllowConversation => v1::Decision::AllowConversation,
        Decided::Edit => v1::Decision::Edit,
        Decided::Deny => v1::Decision::Deny,
    };
    v1::ApprovalDecided { request_id: it.request_id.clone(), decision: decision.into(), reason: it.reason.clone() }
}

fn calling(it: &Calling) -> v1::ToolCall {
    let arguments = if it.masked.is_empty() { &it.arguments } else { &it.masked };
    v1::ToolCall {
        call_id: it.call_id.clone(),
        skill_id: it.skill_id.clone(),
        name: it.name.clone(),
        arguments_json: arguments.clone(),
        repairs: it.repairs.iter().cloned().map(Into::into).collect(),
    }
}

fn asked(it: &Asked) -> v1::InputRequested {
    v1::InputRequested {
        request_id: it.request_id.clone(),
        call_id: it.call_id.clone(),
        message: it.message.clone(),
        questions: it.questions.iter().map(question).collect(),
    }
}

fn question(it: &Question) -> v1::Question {
    let kind = match it.kind {
        QuestionKind::Text => v1::QuestionType::Text,
        QuestionKind::Choice => v1::QuestionType::Choice,
        QuestionKind::Confirm => v1::QuestionType::Confirm,
        QuestionKind::Secret => v1::QuestionType::Secret,
    };
    v1::Question {
        id: it.id.clone(),
        text: it.text.clone(),
        r#type: kind.into(),
        options: it.options.clone(),
        required: it.required,
    }
}

fn answered(it: &Answered) -> v1::InputAnswered {
    let answers = it.answers.iter().map(|it| v1::UserAnswer { id: it.id.clone(), answer: it.answer.clone() });
    v1::InputAnswered { request_id: it.request_id.clone(), answers: answers.collect(), declined: it.declined }
}

fn called(it: &Called) -> v1::ToolResult {
    let rendered = render(it);
    v1::ToolResult {
        call_id: it.call_id.clone(),
        success: it.outcome.is_success(),
        content: rendered.content,
        result_id: rendered.result_id,
        code: it.outcome.code,
        latency_ms: it.latency_ms,
        replayed: !it.replays.is_empty(),
        unknown: it.unknown,
    }
}

fn ended(it: &Ended) -> v1::TurnDone {
    let end = match it.end {
        End::Completed => v1::TurnEnd::Completed,
        End::Limit => v1::TurnEnd::Limit,
        End::Cancelled => v1::TurnEnd::Cancelled,
        End::Failed => v1::TurnEnd::Failed,
    };
    v1::TurnDone {
        end: end.into(),
        text: it.text.clone(),
        error: it.error.clone(),
        usage: Some(usage(it.used)),
        limit: it.limit.clone(),
    }
}
