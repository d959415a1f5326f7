//! Rebuilds the index from the files of earlier processes. Bounded and tolerant: skips lines that were truncated by
//! a kill, or written by another version.

use std::io::{BufRead, Read as _};
use std::ops::Range;
use std::sync::Arc;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::ErrorCode;
use serde::Deserialize;

use super::folder::{Segment, TraceFolder};
use super::ids::NameInterner;
use super::index::Summary;
use super::render::VERSION;

/// The maximum number of bytes to read from the latest files.
pub(super) const MAX_BYTES: u64 = 128 * 1024 * 1024;

/// The maximum length of a line, in bytes. A longer one is not the recorder's.
const MAX_LINE_BYTES: u64 = 8 * 1024 * 1024;

/// The fields of a line that the index needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct IndexedLine {
    v: u64,
    event: String,
    gateway: String,
    trace: String,
    call: String,
    time: String,
    skill: String,
    principal: String,
    session: String,
    at_us: u64,
    code: String,
    attempts: u32,
    repair_count: u32,
    worker_id: String,
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

/// Whether the first line of the file names the gateway.
fn is_of(segment: &Segment, gateway: &str, bytes: u64) -> bool {
    let Ok(start) = segment.read(0, bytes.min(1024) as usize) else { return false };
    let first = start.split(|it| *it == b'\n').next().unwrap_or_default();
    serde_json::from_slice(first).is_ok_and(|row: IndexedLine| row.event == "file" && row.gateway == gateway)
}

/// Reads the lines of a file from the offset `at`. Calls `tell` with each complete call, in the order in which they
/// ended.
pub(super) fn read(mut lines: impl BufRead, mut at: u64, names: &mut NameInterner, mut tell: impl FnMut(RecordedCall)) {
    let (mut line, mut open) = (Vec::new(), None::<(u64, IndexedLine)>);
    loop {
        line.clear();
        if !matches!(lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
        let start = at;
        at += line.len() as u64;
        let row = serde_json::from_slice::<IndexedLine>(&line).ok();
        match row.filter(|row| row.v == VERSION && line.ends_with(b"\n")) {
            Some(row) if row.event == "call" => open = Some((start, row)),
            Some(row) if row.event == "result" => {
                if let Some((start, call)) = open.take()
                    && (&call.trace, &call.call) == (&row.trace, &row.call)
                    && let Some(summary) = summary(&call, &row, names)
                {
                    tell(RecordedCall { summary, start, bytes: (at - start) as usize });
                }
            }
            Some(_) => {}
            None => open = None,
        }
    }
}

fn summary(call: &IndexedLine, result: &IndexedLine, names: &mut NameInterner) -> Option<Summary> {
    let code = if result.code == "OK" { "OK" } else { ErrorCode::from_str_name(&result.code)?.as_str_name() };
    Some(Summary {
        trace_id: call.trace.as_str().into(),
        call_id: call.call.as_str().into(),
        skill_id: names.get(&call.skill),
        principal: names.get(&call.principal),
        session_id: call.session.as_str().into(),
        received_us: Timestamp::parse(&call.time)?.0,
        duration_us: result.at_us,
        code,
        attempts: result.attempts,
        repairs: result.repair_count,
        worker_id: names.get(&result.worker_id),
    })
}
