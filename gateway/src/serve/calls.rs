//! Lists and cancels running calls, for both faces. Served, and restricted, like recorded calls.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{
    CallState, CancelCallRequest, CancelCallResponse, ListCallsRequest, ListCallsResponse, RunningCall,
};

use super::traces::{NoTraces, Traces};
use crate::call::operation::{Operation, Protocol};
use crate::call::request::Call;
use crate::gateway::Gateway;
use crate::identity::audit;
use crate::observe::recorder::read::TraceReader;

/// The maximum number of listed calls, which is also the default.
const MAX_LISTED: usize = 1000;

impl Traces {
    /// Lists the running calls that a reader requests, the oldest first.
    pub(crate) fn list_calls(
        &self,
        request: &ListCallsRequest,
        reader: &TraceReader,
    ) -> Result<ListCallsResponse, NoTraces> {
        self.check_listener()?;
        let ListCallsRequest { skill_id, principal, limit } = request;
        let mut calls = self.shard.gateway.calls.find(|call| {
            reader.may_see(&call.principal)
                && (skill_id.is_empty() || call.skill_id == *skill_id)
                && (principal.is_empty() || call.principal.name() == principal)
        });
        let limit = if *limit == 0 { MAX_LISTED } else { MAX_LISTED.min(*limit as usize) };
        let left_out = calls.len().saturating_sub(limit) as u32;
        calls.truncate(limit);
        Ok(ListCallsResponse { gateway: self.gateway_id(), calls: describe(&self.shard.gateway, &calls), left_out })
    }

    /// Cancels the running calls of one principal with an id. `by` names the principal that asks for it.
    pub(crate) fn cancel_call(
        &self,
        request: &CancelCallRequest,
        reader: &TraceReader,
        by: &str,
    ) -> Result<CancelCallResponse, NoTraces> {
        self.check_listener()?;
        let CancelCallRequest { call_id, principal } = request;
        let calls = self.shard.gateway.calls.find(|call| {
            call.call_id == *call_id
                && reader.may_see(&call.principal)
                && principal.as_ref().is_none_or(|it| call.principal.name() == it)
        });
        let Some(first) = calls.first() else { return Err(NoTraces::NotRunning) };
        if calls.iter().any(|it| it.principal != first.principal) {
            return Err(NoTraces::SeveralPrincipals);
        }
        let described = describe(&self.shard.gateway, &calls);
        for call in &calls {
            call.cancellation.notify_one();
            audit::log_cancelled(by, call.principal.name(), &call.call_id, &call.trace.id);
        }
        Ok(CancelCallResponse { gateway: self.gateway_id(), calls: described })
    }

    fn gateway_id(&self) -> String {
        let recorder = self.shard.gateway.config.recorder.as_ref();
        recorder.map(|it| it.gateway.clone()).unwrap_or_default()
    }
}

fn describe(gateway: &Gateway, calls: &[Arc<Call>]) -> Vec<RunningCall> {
    let (workers, waiting) = (gateway.fleet.all(), gateway.questions.waiting_calls());
    let asking: HashSet<_> = waiting.iter().map(Arc::as_ptr).collect();
    let (now, instant) = (Timestamp::now().0, Instant::now());
    let describe = |call: &Arc<Call>| {
        let attempt = call.stage.latest_attempt();
        let state = match attempt.is_running {
            true if asking.contains(&Arc::as_ptr(call)) => CallState::Asking,
            true => CallState::Running,
            false => CallState::Waiting,
        };
        let worker = attempt.worker.and_then(|address| workers.iter().find(|it| it.address == address));
        let elapsed_us = instant.saturating_duration_since(call.received).as_micros() as u64;
        RunningCall {
            call_id: call.call_id.clone(),
            trace_id: call.trace.id.clone(),
            skill_id: call.skill_id.clone(),
            principal: call.principal.name().to_owned(),
            protocol: protocol(call.operation).to_owned(),
            received_us: now.saturating_sub(elapsed_us),
            elapsed_us,
            state: state.into(),
            attempts: attempt.number,
            worker_id: worker.map(|it| it.id()).unwrap_or_default(),
        }
    };
    calls.iter().map(describe).collect()
}

fn protocol(operation: &Operation) -> &'static str {
    match operation.protocol {
        _ if *operation == Operation::INTERNAL => "agent",
        Protocol::Grpc => "grpc",
        Protocol::Rest => "rest",
        Protocol::Mcp => "mcp",
    }
}
