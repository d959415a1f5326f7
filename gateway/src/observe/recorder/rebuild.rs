//! Rebuilds the index from the files of earlier processes. Bounded and tolerant: skips lines that were truncated by
//! a kill, or written by another version.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::ErrorCode;
use serde::Deserialize;

use super::folder::{Segment, TraceFolder};
use super::ids::{Id, NameInterner};
use super::index::Summary;
use super::render::VERSION;

/// The maximum number of bytes to read from the latest files.
pub(super) const MAX_BYTES: u64 = 128 * 1024 * 1024;

/// The number of bytes to read at once. The lines of one call are shorter.
pub(super) const WINDOW_BYTES: u64 = 8 * 1024 * 1024;

/// The fields of a line that the index needs.
#[derive(Deserialize)]
struct IndexedLine<'a> {
    v: u64,
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    gateway: Cow<'a, str>,
    #[serde(borrow, default)]
    trace: Cow<'a, str>,
    #[serde(borrow, default)]
    call: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Cow<'a, str>,
    #[serde(borrow, default)]
    skill: Cow<'a, str>,
    #[serde(borrow, default)]
    principal: Cow<'a, str>,
    #[serde(borrow, default)]
    session: Cow<'a, str>,
    #[serde(default)]
    at_us: u64,
    #[serde(borrow, default)]
    code: Cow<'a, str>,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    repair_count: u32,
    #[serde(borrow, default)]
    worker_id: Cow<'a, str>,
}

/// A call, with the range of its lines in its file.
pub(super) struct RecordedCall {
    pub(super) summary: Summary,
    pub(super) start: u64,
    pub(super) bytes: usize,
}

/// Returns the latest files of this gateway, oldest first, each with the range to read. The ranges have at most
/// `left` bytes in total, and include only the end of the oldest file.
pub(super) fn files(folder: &Arc<TraceFolder>, gateway: &str, mut left: u64) -> Vec<(Arc<Segment>, Range<u64>)> {
    let mut files = Vec::new();
    for found in folder.files().unwrap_or_default().into_iter().rev() {
        if left == 0 {
            break;
        }
        let segment = Segment::new(folder, found.name);
        if is_of(&segment, gateway, found.bytes) {
            let part = found.bytes.saturating_sub(left)..found.bytes;
            left -= part.end - part.start;
            files.push((segment, part));
        }
    }
    files.reverse();
    files
}

/// Reads a part of a file, `window` bytes at a time. Calls `tell` with the calls in the order in which they ended.
pub(super) fn read(
    segment: &Segment,
    mut part: Range<u64>,
    window: u64,
    names: &mut NameInterner,
    mut tell: impl FnMut(Vec<RecordedCall>),
) {
    while !part.is_empty() {
        let bytes = (part.end - part.start).min(window);
        let Ok(text) = segment.read(part.start, bytes as usize) else { return };
        let (mut found, read) = calls(&text, names);
        found.iter_mut().for_each(|call| call.start += part.start);
        tell(found);
        // A call that exceeds the window is read again, unless it is longer than a whole window.
        part.start += if read == 0 { bytes } else { read };
        if bytes < window {
            return;
        }
    }
}

/// Whether the first line of the file names the gateway.
fn is_of(segment: &Segment, gateway: &str, bytes: u64) -> bool {
    let Ok(start) = segment.read(0, bytes.min(1024) as usize) else { return false };
    let first = start.split(|it| *it == b'\n').next().unwrap_or_default();
    serde_json::from_slice(first).is_ok_and(|row: IndexedLine<'_>| row.event == "file" && row.gateway == gateway)
}

/// Returns the complete calls in the text of a file, and the length of the text without an incomplete call at its
/// end.
pub(super) fn calls(text: &[u8], names: &mut NameInterner) -> (Vec<RecordedCall>, u64) {
    let (mut calls, mut open, mut at) = (Vec::new(), None::<(u64, IndexedLine<'_>)>, 0);
    for line in text.split_inclusive(|it| *it == b'\n') {
        if !line.ends_with(b"\n") {
            break;
        }
        let start = at;
        at += line.len() as u64;
        let Ok(row) = serde_json::from_slice::<IndexedLine<'_>>(line) else {
            open = None;
            continue;
        };
        if row.v != VERSION {
            open = None;
        } else if row.event == "call" {
            open = Some((start, row));
        } else if row.event == "result"
            && let Some((start, call)) = open.take()
            && (&call.trace, &call.call) == (&row.trace, &row.call)
            && let Some(summary) = summary(&call, &row, names)
        {
            calls.push(RecordedCall { summary, start, bytes: (at - start) as usize });
        }
    }
    let end = open.map_or(at, |(start, _)| start);
    (calls, end)
}

fn summary(call: &IndexedLine<'_>, result: &IndexedLine<'_>, names: &mut NameInterner) -> Option<Summary> {
    let code = if result.code == "OK" { "OK" } else { ErrorCode::from_str_name(&result.code)?.as_str_name() };
    Some(Summary {
        trace_id: Id::from_text(&call.trace),
        call_id: Id::from_text(&call.call),
        skill_id: names.get(&call.skill),
        principal: names.get(&call.principal),
        session_id: Id::from_text(&call.session),
        received_us: Timestamp::parse(&call.time)?.0,
        duration_us: result.at_us,
        code,
        attempts: result.attempts,
        repairs: result.repair_count,
        worker_id: names.get(&result.worker_id),
    })
}
