//! Queries by readers: lists, whole traces, and a stream of calls as they end.

use std::sync::Arc;

use openskill_proto::v1::{FollowTracesResponse, GetTraceResponse, ListTracesRequest, ListTracesResponse, TraceFilter};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::index::{Choice, EventLocation, Summary};
use super::thread::EndedCalls;
use super::{Recorder, ids};
use crate::call::principal::Principal;

/// The default number of calls per page.
const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1000;

/// The maximum number of calls that a trace returns.
const MAX_CALLS: usize = 1000;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Who reads recorded calls.
#[derive(Debug, Clone)]
pub(crate) enum TraceReader {
    /// A client of the admin listener. Sees all calls.
    Operator,
    /// Sees only its own calls.
    Principal(Principal),
}

impl TraceReader {
    /// Whether it sees the calls of `owner`.
    pub(crate) fn may_see(&self, owner: &Principal) -> bool {
        match self {
            Self::Operator => true,
            Self::Principal(principal) => principal == owner,
        }
    }

    /// Whether it sees what skills wrote to stderr, such as paths and settings of a worker. Without authentication, the
    /// anonymous principal does: only programs on this machine can read.
    fn sees_stderr(&self) -> bool {
        match self {
            Self::Operator => true,
            Self::Principal(principal) => principal.sees_all() && principal.name().is_empty(),
        }
    }
}

/// The cursor is not from this process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownCursor;

/// A stream of calls as they end.
pub(crate) struct Following {
    ended: Receiver<EndedCalls>,
    choice: Choice,
    gateway: Arc<str>,
    /// The number of calls that had ended at the last report.
    told: Option<u64>,
}

impl Recorder {
    /// Returns the calls that a reader requests, latest first. Blocks for up to a millisecond, and while calls are
    /// added.
    ///
    /// # Errors
    /// The cursor is not from this process.
    pub(crate) fn list(
        &self,
        request: ListTracesRequest,
        reader: &TraceReader,
    ) -> Result<ListTracesResponse, UnknownCursor> {
        let below = match request.cursor.as_str() {
            "" => u64::MAX,
            cursor => self.parse(cursor).ok_or(UnknownCursor)?,
        };
        let limit = if request.limit == 0 { DEFAULT_LIMIT } else { request.limit.min(MAX_LIMIT) };
        let choice = self.choice(request.filter, reader);
        let (calls, next) = self.state.index.lock().page(&choice, below, limit as usize);
        let next_cursor = next.map_or_else(String::new, |number| format!("{:08x}-{number}", self.instance));
        Ok(ListTracesResponse { gateway: self.gateway.to_string(), calls, next_cursor })
    }

    fn parse(&self, cursor: &str) -> Option<u64> {
        let (instance, number) = cursor.split_once('-')?;
        let is_own = u32::from_str_radix(instance, 16).ok()? == self.instance;
        number.parse().ok().filter(|_| is_own)
    }

    /// Returns the events of all calls with this trace id or call id. Blocks, because it reads files.
    pub(crate) fn trace(&self, id: &str, reader: &TraceReader) -> Option<GetTraceResponse> {
        let (trace, call) = (ids::trace(&self.redactor, id), ids::call(&self.redactor, id));
        let choice = self.choice(None, reader);
        // The id may have the form that lists show.
        let is_named = |it: &Summary| [&*trace, id].contains(&&*it.trace_id) || [&*call, id].contains(&&*it.call_id);
        let is_wanted = |it: &Summary| choice.may_see(it) && is_named(it);
        let locations = self.state.index.lock().locations(is_wanted);
        let (mut events_json, mut bytes, mut calls) = (Vec::new(), 0, 0);
        for location in &locations {
            bytes += location.bytes();
            if calls == MAX_CALLS || bytes > MAX_BYTES {
                break;
            }
            calls += 1;
            events_json.extend(lines(location));
        }
        if !reader.sees_stderr() {
            events_json.iter_mut().for_each(remove_stderr);
        }
        // The file may have been removed since.
        (!events_json.is_empty()).then(|| GetTraceResponse {
            gateway: self.gateway.to_string(),
            events_json,
            left_out: (locations.len() - calls) as u32,
        })
    }

    /// Streams the calls that end from now on.
    pub(crate) fn follow(&self, filter: Option<TraceFilter>, reader: &TraceReader) -> Following {
        let ended = self.state.ended.subscribe();
        Following { ended, choice: self.choice(filter, reader), gateway: Arc::clone(&self.gateway), told: None }
    }

    /// Builds the selection of calls for a reader. The filter's session is an original id, or the form that lists
    /// show.
    fn choice(&self, filter: Option<TraceFilter>, reader: &TraceReader) -> Choice {
        let wanted = filter.unwrap_or_default();
        let session = ids::session(&self.redactor, &wanted.session_id);
        let only = match reader {
            TraceReader::Operator => None,
            TraceReader::Principal(principal) => Some(principal.name().to_owned()),
        };
        Choice { wanted, session, only }
    }
}

fn lines(location: &EventLocation) -> Vec<String> {
    let text = match location {
        EventLocation::Memory(lines) => lines.to_vec(),
        EventLocation::File { segment, start, bytes } => segment.read(*start, *bytes).unwrap_or_default(),
    };
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// Removes from a result's line what the skill wrote to stderr.
fn remove_stderr(line: &mut String) {
    #[derive(Deserialize)]
    struct ResultLine<'a> {
        #[serde(borrow)]
        stderr: &'a RawValue,
    }
    let Ok(ResultLine { stderr }) = serde_json::from_str(line) else { return };
    let member = format!(",\"stderr\":{stderr}");
    // The data and the details of an error may have the same member. They come first.
    if let Some(start) = line.rfind(&member) {
        line.replace_range(start..start + member.len(), "");
    }
}

impl Following {
    /// Returns the next calls. None once the recorder has ended.
    pub(crate) async fn next(&mut self) -> Option<Vec<FollowTracesResponse>> {
        loop {
            let ended = match self.ended.recv().await {
                Ok(ended) => ended,
                // The next batch tells how many calls were missed.
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return None,
            };
            let missed =
                ended.before - self.told.replace(ended.before + ended.calls.len() as u64).unwrap_or(ended.before);
            let response = |call, missed| FollowTracesResponse { call, missed, gateway: self.gateway.to_string() };
            let gap = (missed > 0).then(|| response(None, missed));
            let chosen = ended.calls.iter().filter(|it| self.choice.has(it));
            let told: Vec<_> = gap.into_iter().chain(chosen.map(|it| response(Some(it.to_wire()), 0))).collect();
            if !told.is_empty() {
                return Some(told);
            }
        }
    }
}
