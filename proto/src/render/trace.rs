//! Renders running and recorded calls as JSON.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json::to_text;
use crate::timestamp::Timestamp;
use crate::v1::{
    CancelCallResponse, GetTraceResponse, ListCallsResponse, ListTracesResponse, RunningCall, TraceSummary,
};

/// Renders a running call.
pub fn running_call(call: &RunningCall) -> Value {
    json!({
        "call_id": call.call_id,
        "trace_id": call.trace_id,
        "skill_id": call.skill_id,
        "principal": call.principal,
        "protocol": call.protocol,
        "time": Timestamp(call.received_us).to_string(),
        "elapsed_us": call.elapsed_us,
        "state": call_state(call),
        "attempts": call.attempts,
        "worker_id": (!call.worker_id.is_empty()).then_some(&call.worker_id),
    })
}

/// Returns the state of a running call, such as `asking`.
pub fn call_state(call: &RunningCall) -> String {
    call.state().as_str_name().trim_start_matches("CALL_STATE_").to_ascii_lowercase()
}

/// Renders a list of running calls.
pub fn calls(list: &ListCallsResponse) -> String {
    let calls: Vec<_> = list.calls.iter().map(running_call).collect();
    json!({ "gateway": list.gateway, "calls": calls, "left_out": list.left_out }).to_string()
}

/// Renders the calls that were cancelled.
pub fn cancelled_calls(cancelled: &CancelCallResponse) -> String {
    let calls: Vec<_> = cancelled.calls.iter().map(running_call).collect();
    json!({ "gateway": cancelled.gateway, "calls": calls }).to_string()
}

/// Renders a recorded call as a list entry.
pub fn trace_summary(call: &TraceSummary) -> Value {
    json!({
        "trace_id": call.trace_id,
        "call_id": call.call_id,
        "skill_id": call.skill_id,
        "principal": call.principal,
        "session_id": (!call.session_id.is_empty()).then_some(&call.session_id),
        "time": Timestamp(call.received_us).to_string(),
        "duration_us": call.duration_us,
        "code": call.code,
        "attempts": call.attempts,
        "repairs": call.repairs,
        "worker_id": (!call.worker_id.is_empty()).then_some(&call.worker_id),
    })
}

/// Renders a page of recorded calls.
pub fn traces(page: &ListTracesResponse) -> String {
    json!({
        "gateway": page.gateway,
        "calls": page.calls.iter().map(trace_summary).collect::<Vec<_>>(),
        "next_cursor": (!page.next_cursor.is_empty()).then_some(&page.next_cursor),
    })
    .to_string()
}

/// Renders the events of a trace.
pub fn trace(trace: &GetTraceResponse) -> String {
    #[derive(Serialize)]
    struct Trace<'a> {
        gateway: &'a str,
        events: Vec<&'a RawValue>,
        left_out: u32,
    }
    let events = trace.events_json.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    to_text(&Trace { gateway: &trace.gateway, events, left_out: trace.left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_ids_are_null_and_events_are_copied() {
        let call = TraceSummary { trace_id: "t".to_owned(), received_us: 1_500_000, ..TraceSummary::default() };
        let page = ListTracesResponse { gateway: "g".to_owned(), calls: vec![call], ..ListTracesResponse::default() };
        let page: Value = serde_json::from_str(&traces(&page)).unwrap();
        assert_eq!((&page["next_cursor"], &page["calls"][0]["session_id"]), (&Value::Null, &Value::Null));
        assert_eq!(page["calls"][0]["time"], "1970-01-01T00:00:01.500000Z");
        let events_json = vec!["{\"n\":1.50}".to_owned(), "torn".to_owned()];
        let text = trace(&GetTraceResponse { gateway: "g".to_owned(), events_json, left_out: 2 });
        assert_eq!(text, "{\"gateway\":\"g\",\"events\":[{\"n\":1.50}],\"left_out\":2}");
    }
}
