//! The index as it was before this process started, read from the files. Bounded, and tolerant: what was torn by a kill, or
//! written by another version, is skipped.

use std::borrow::Cow;
use std::sync::Arc;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::ErrorCode;
use serde::Deserialize;

use super::folder::Folder;
use super::index::Summary;
use super::names::Names;
use super::render::VERSION;
use super::segment::Segment;

/// How many bytes are read, of the latest files.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// How many files are opened. Their descriptors stay open while calls in them are in the index.
const MAX_FILES: usize = 64;

/// A line, as far as the index needs it.
#[derive(Deserialize)]
struct Row<'a> {
    v: u32,
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

/// A call, and where its lines are in its file.
pub(super) struct Found {
    pub(super) summary: Summary,
    pub(super) start: u64,
    pub(super) bytes: usize,
}

/// The latest files of this gateway, the oldest first.
pub(super) fn files(folder: &Folder, gateway: &str) -> Vec<(Arc<Segment>, u64)> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    for found in folder.files().unwrap_or_default().into_iter().rev() {
        if bytes + found.bytes > MAX_BYTES || files.len() >= MAX_FILES {
            break;
        }
        let Ok(file) = folder.read(&found.name) else { continue };
        let segment = Arc::new(Segment { name: found.name, file });
        if is_of(&segment, gateway, found.bytes) {
            bytes += found.bytes;
            files.push((segment, found.bytes));
        }
    }
    files.reverse();
    files
}

/// Whether the file's first line names the gateway.
fn is_of(segment: &Segment, gateway: &str, bytes: u64) -> bool {
    let Ok(start) = segment.read(0, bytes.min(1024) as usize) else { return false };
    let first = start.split(|it| *it == b'\n').next().unwrap_or_default();
    serde_json::from_slice(first).is_ok_and(|row: Row<'_>| row.event == "file" && row.gateway == gateway)
}

/// The calls in the text of a file whose lines are all there.
pub(super) fn calls(text: &[u8], names: &mut Names) -> Vec<Found> {
    let (mut calls, mut open, mut at) = (Vec::new(), None::<(u64, Row<'_>)>, 0);
    for line in text.split_inclusive(|it| *it == b'\n') {
        let start = at;
        at += line.len() as u64;
        let Ok(row) = serde_json::from_slice::<Row<'_>>(line) else {
            open = None;
            continue;
        };
        if row.v != VERSION || !line.ends_with(b"\n") {
            open = None;
        } else if row.event == "call" {
            open = Some((start, row));
        } else if row.event == "result"
            && let Some((start, call)) = open.take()
            && (&call.trace, &call.call) == (&row.trace, &row.call)
            && let Some(summary) = summary(&call, &row, names)
        {
            calls.push(Found { summary, start, bytes: (at - start) as usize });
        }
    }
    calls
}

fn summary(call: &Row<'_>, result: &Row<'_>, names: &mut Names) -> Option<Summary> {
    let code = if result.code == "OK" { "OK" } else { ErrorCode::from_str_name(&result.code)?.as_str_name() };
    Some(Summary {
        trace_id: (*call.trace).into(),
        call_id: (*call.call).into(),
        skill_id: names.get(&call.skill),
        principal: names.get(&call.principal),
        session_id: (*call.session).into(),
        received_us: Timestamp::parse(&call.time)?.0,
        duration_us: result.at_us,
        code,
        attempts: result.attempts,
        repairs: result.repair_count,
        worker_id: names.get(&result.worker_id),
    })
}
