//! Converts entries into events for clients.

use openskill_proto::v1::{self, chat_event::Event};

use crate::context::result::render;
use crate::entry::{
    ApprovalAsked, Called, Calling, Entry, QuestionAnswer, Stamped, TurnEnded, TurnUsage, UserQuestion,
};

/// Returns the event that clients receive for an entry.
pub fn event(conversation_id: &str, stamped: &Stamped) -> v1::ChatEvent {
    v1::ChatEvent {
        number: stamped.number,
        conversation_id: conversation_id.to_owned(),
        time_us: stamped.time_us,
        event: Some(payload(&stamped.entry)),
    }
}

/// Builds an event that watchers receive but the log does not store.
pub fn ephemeral(conversation_id: &str, time_us: u64, event: Event) -> v1::ChatEvent {
    v1::ChatEvent { number: 0, conversation_id: conversation_id.to_owned(), time_us, event: Some(event) }
}

/// Converts a turn's usage to its form for clients.
pub fn usage(used: TurnUsage) -> v1::Usage {
    v1::Usage {
        input_tokens: used.input_tokens,
        output_tokens: used.output_tokens,
        iterations: used.iterations,
        tool_calls: used.tool_calls,
        cost_micros: used.cost_micros,
    }
}

fn payload(entry: &Entry) -> Event {
    match entry {
        Entry::Started(it) => Event::Started(v1::TurnStarted {
            text: it.text.clone(),
            model: it.model.clone(),
            mode: it.mode as i32,
            trace_id: it.trace_id.clone(),
        }),
        Entry::Replied(it) => {
            let routing = it.routing.clone();
            Event::Reply(v1::ModelReply {
                text: it.text.clone(),
                call_ids: it.calls.iter().map(|call| call.id.clone()).collect(),
                routing: routing.map(|it| v1::Routing { selected_skill_id: it.skill_id, reason: it.reason }),
            })
        }
        Entry::ApprovalAsked(it) => Event::ApprovalRequired(approval_requested(it)),
        Entry::ApprovalDecided(it) => Event::Decided(v1::ApprovalDecided {
            request_id: it.request_id.clone(),
            decision: it.decision as i32,
            reason: it.reason.clone(),
        }),
        Entry::Calling(it) => Event::ToolCall(tool_call(it)),
        Entry::Asked(it) => Event::InputRequired(v1::InputRequested {
            request_id: it.request_id.clone(),
            call_id: it.call_id.clone(),
            message: it.message.clone(),
            questions: it.questions.iter().map(question).collect(),
        }),
        Entry::Answered(it) => Event::Answered(v1::InputAnswered {
            request_id: it.request_id.clone(),
            answers: it.answers.iter().map(answer).collect(),
            declined: it.declined,
        }),
        Entry::Called(it) => Event::ToolResult(tool_result(it)),
        Entry::Waiting { request_ids } => Event::Waiting(v1::TurnWaiting { request_ids: request_ids.clone() }),
        Entry::Summarized(it) => Event::Summarized(v1::Summarized { until: it.until, text: it.text.clone() }),
        Entry::Ended(it) => Event::Done(turn_done(it)),
    }
}

fn approval_requested(it: &ApprovalAsked) -> v1::ApprovalRequested {
    v1::ApprovalRequested {
        request_id: it.request_id.clone(),
        call_id: it.call_id.clone(),
        skill_id: it.skill.skill_id.clone(),
        version: it.skill.version.clone(),
        arguments_json: it.arguments.clone(),
        repairs: it.repairs.iter().cloned().map(Into::into).collect(),
        reason: it.reason.clone(),
        expires_us: it.expires_us,
        tainted: it.tainted,
    }
}

fn tool_call(it: &Calling) -> v1::ToolCall {
    let arguments = if it.masked.is_empty() { &it.arguments } else { &it.masked };
    v1::ToolCall {
        call_id: it.call_id.clone(),
        skill_id: it.skill.skill_id.clone(),
        name: it.name.clone(),
        arguments_json: arguments.clone(),
        repairs: it.repairs.iter().cloned().map(Into::into).collect(),
    }
}

fn question(it: &UserQuestion) -> v1::Question {
    v1::Question {
        id: it.id.clone(),
        text: it.text.clone(),
        r#type: it.kind as i32,
        options: it.options.clone(),
        required: it.required,
    }
}

fn answer(it: &QuestionAnswer) -> v1::UserAnswer {
    v1::UserAnswer { id: it.id.clone(), answer: it.answer.clone() }
}

fn tool_result(it: &Called) -> v1::ToolResult {
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

fn turn_done(it: &TurnEnded) -> v1::TurnDone {
    v1::TurnDone {
        end: it.end as i32,
        text: it.text.clone(),
        error: it.error.clone(),
        usage: Some(usage(it.used)),
        limit: it.limit.clone(),
    }
}
