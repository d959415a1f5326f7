//! The event that tells of an end: a CloudEvent in structured JSON.

use openskill_proto::timestamp::Timestamp;
use openskill_store::operation::Operation;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::end::state_name;

/// The content type of events.
pub(super) const CONTENT_TYPE: &str = "application/cloudevents+json";

/// A CloudEvent. Its id and its source are the same in each attempt, so that receivers can drop repeated ones.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'a str,
    id: &'a str,
    source: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    subject: &'a str,
    time: String,
    datacontenttype: &'a str,
    data: &'a RawValue,
}

/// Renders the event of an operation that has ended. `data` is the operation as JSON. None if it is not valid.
pub(super) fn body(operation: &Operation, public_url: &str, data: String) -> Option<String> {
    let event = CloudEvent {
        specversion: "1.0",
        id: &operation.id,
        source: &format!("{public_url}/operations"),
        kind: &format!("dev.openskill.operation.{}", state_name(operation.state)),
        subject: &operation.id,
        time: Timestamp(operation.ended_ms.unwrap_or_default().max(0).cast_unsigned() * 1000).to_string(),
        datacontenttype: "application/json",
        data: &RawValue::from_string(data).ok()?,
    };
    serde_json::to_string(&event).ok()
}
