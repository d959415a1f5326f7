//! What readers ask: lists, whole traces, and calls as they end.

use std::sync::Arc;

use openskill_proto::v1::{FollowTracesResponse, GetTraceResponse, ListTracesRequest, ListTracesResponse, TraceFilter};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::index::{Choice, Place, Summary};
use super::thread::Ended;
use super::{Recorder, ids};
use crate::call::principal::Principal;

/// How many calls a page has.
const DEFAULT_LIMIT: u32 = 50;
const MAX_LIMIT: u32 = 1000;

/// How much of a trace is returned.
const MAX_CALLS: usize = 1000;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Who reads.
#[derive(Debug, Clone)]
pub(crate) enum Reader {
    /// Whoever may use a listener that is for operators alone: sees all calls.
    Operator,
    /// Sees its own calls.
    Principal(Principal),
}

/// The cursor is none that this process gave out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownCursor;

/// Calls as they end.
pub(crate) struct Following {
    ended: Receiver<Ended>,
    choice: Choice,
    gateway: Arc<str>,
    /// How many calls had ended when the last ones were told.
    told: Option<u64>,
}

impl Reader {
    fn only(&self) -> Option<String> {
        match self {
            Self::Operator => None,
            Self::Principal(principal) => Some(principal.name().to_owned()),
        }
    }
}

impl Recorder {
    /// The calls that a reader asks for, the latest first. Blocks: up to a millisecond, and while calls are added.
    ///
    /// # Errors
    /// The request continues a list that this process did not begin.
    pub(crate) fn list(
        &self,
        request: ListTracesRequest,
        reader: &Reader,
    ) -> Result<ListTracesResponse, UnknownCursor> {
        let below = match request.cursor.as_str() {
            "" => u64::MAX,
            cursor => self.parse(cursor).ok_or(UnknownCursor)?,
        };
        let limit = if request.limit == 0 { DEFAULT_LIMIT } else { request.limit.min(MAX_LIMIT) };
        let choice = self.choice(request.filter, reader);
        let (calls, next) = self.shelf.index().page(&choice, below, limit as usize);
        let next_cursor = next.map_or_else(String::new, |number| format!("{:08x}-{number}", self.instance));
        Ok(ListTracesResponse { gateway: self.gateway.to_string(), calls, next_cursor })
    }

    fn parse(&self, cursor: &str) -> Option<u64> {
        let (instance, number) = cursor.split_once('-')?;
        let is_own = u32::from_str_radix(instance, 16).ok()? == self.instance;
        number.parse().ok().filter(|_| is_own)
    }

    /// The events of all calls with this trace id or call id. Blocks: it reads files.
    pub(crate) fn trace(&self, id: &str, reader: &Reader) -> Option<GetTraceResponse> {
        let (trace, call) = (ids::trace(&self.redactor, id), ids::call(&self.redactor, id));
        let choice = self.choice(None, reader);
        let is_wanted = |it: &Summary| {
            let is_named = it.trace_id == trace || it.call_id == call;
            // Ids as lists show them.
            let is_shown = || it.call_id.is(id) || it.trace_id.is(id);
            choice.may_see(it) && (is_named || is_shown())
        };
        let places = self.shelf.index().places(is_wanted);
        let (mut events_json, mut bytes, mut calls) = (Vec::new(), 0, 0);
        for place in &places {
            bytes += place.bytes();
            if calls == MAX_CALLS || bytes > MAX_BYTES {
                break;
            }
            calls += 1;
            events_json.extend(lines(place));
        }
        // The file may have been removed since.
        (!events_json.is_empty()).then(|| GetTraceResponse {
            gateway: self.gateway.to_string(),
            events_json,
            left_out: (places.len() - calls) as u32,
        })
    }

    /// The calls that end from now on.
    pub(crate) fn follow(&self, filter: Option<TraceFilter>, reader: &Reader) -> Following {
        let ended = self.shelf.ended.subscribe();
        Following { ended, choice: self.choice(filter, reader), gateway: Arc::clone(&self.gateway), told: None }
    }

    /// What a reader gets. A session is wanted by its id as it was sent, or as lists show it.
    fn choice(&self, filter: Option<TraceFilter>, reader: &Reader) -> Choice {
        let wanted = filter.unwrap_or_default();
        let session = ids::session(&self.redactor, &wanted.session_id);
        Choice { wanted, session, only: reader.only() }
    }
}

fn lines(place: &Place) -> Vec<String> {
    let text = match place {
        Place::Memory(lines) => lines.to_vec(),
        Place::File { segment, start, bytes } => segment.read(*start, *bytes).unwrap_or_default(),
    };
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

impl Following {
    /// The next calls. None when the recorder has ended.
    pub(crate) async fn next(&mut self) -> Option<Vec<FollowTracesResponse>> {
        loop {
            let ended = match self.ended.recv().await {
                Ok(ended) => ended,
                // The next ones say how many there were.
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
