//! The stored form of a call.

use openskill_proto::trace::Trace;
use openskill_proto::v1::{InvokeRequest, SubmitRequest};
use prost::Message;

use crate::call::operation::Operation;
use crate::call::principal::Principal;
use crate::call::request::RequestContext;

/// What is needed to run a call. Field numbers never change, because stores outlive programs.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredCall {
    #[prost(message, optional, tag = "1")]
    pub(super) call: Option<InvokeRequest>,
    /// The trace of `Submit`.
    #[prost(string, tag = "2")]
    trace_id: String,
    #[prost(string, tag = "3")]
    traceparent: String,
    #[prost(string, tag = "4")]
    tracestate: String,
    /// Whether the skill may run twice, according to its manifest when the call was submitted.
    #[prost(bool, tag = "5")]
    pub(super) is_idempotent: bool,
    /// Whether it is a call of an MCP client.
    #[prost(bool, tag = "6")]
    is_task: bool,
}

impl StoredCall {
    /// `call` must not contain anything that only its own request can use.
    pub(super) fn new(call: InvokeRequest, trace: &Trace, is_idempotent: bool) -> Self {
        Self {
            call: Some(call),
            trace_id: trace.id.clone(),
            traceparent: trace.context.to_traceparent(),
            tracestate: trace.state.clone(),
            is_idempotent,
            is_task: false,
        }
    }

    /// A call of an MCP client that runs.
    pub(super) fn task(call: InvokeRequest, trace: &Trace, is_idempotent: bool) -> Self {
        Self { is_task: true, ..Self::new(call, trace, is_idempotent) }
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok().filter(|it| it.call.is_some())
    }

    /// The context in which it runs.
    pub(super) fn context(&self, principal: Principal) -> RequestContext {
        let [id, parent, state] = [&self.trace_id, &self.traceparent, &self.tracestate].map(|it| Some(it.as_bytes()));
        let trace = Trace::from_headers(id, parent, state);
        let operation = if self.is_task { &Operation::TASK } else { &Operation::SUBMITTED };
        RequestContext { trace, operation, timeout: None, principal }
    }

    /// The request that submits it once more. The key is left out, because it belongs to the first operation.
    pub(super) fn again(self) -> SubmitRequest {
        let call = self.call.map(|it| InvokeRequest { idempotency_key: String::new(), ..it });
        SubmitRequest { call, ..SubmitRequest::default() }
    }
}
