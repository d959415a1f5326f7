use std::path::Path;

use openskill_proto::v1::{ErrorCode, ListTracesRequest, SkillError, TraceFilter};
use serde_json::{Value, json};

use super::ids::NameInterner;
use super::read::{TraceReader, UnknownCursor};
use super::*;
use crate::call::principal::Principal;
use crate::observe::call_event::{AttemptSummary, CallEvent};

mod secrets;

/// A temporary folder, removed at the end of a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = openskill_proto::trace::hex(&openskill_proto::trace::random_id::<8>());
        Self(std::env::temp_dir().join(format!("openskill-recorder-{name}")))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(folder: Option<&Path>) -> RecorderConfig {
    RecorderConfig {
        gateway: "gateway-1".to_owned(),
        folder: folder.map(Path::to_owned),
        max_bytes: 1024 * 1024,
        max_age: Duration::from_secs(3600),
        redaction: Some(Rules::default()),
    }
}

fn rendered(recording: &Recording) -> Vec<Value> {
    let mut out = Vec::new();
    Renderer::new(Redactor::new(Rules::default()).unwrap(), "gateway-1".into()).write(recording, &mut out);
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn list(recorder: &Recorder, reader: &TraceReader) -> Vec<String> {
    let page = recorder.list(ListTracesRequest::default(), reader).unwrap();
    page.calls.into_iter().map(|it| it.skill_id).collect()
}

#[test]
fn what_is_offered_is_written_before_the_recorder_ends_and_found_by_the_next_one() {
    let folder = Scratch::new();
    let recorder = Recorder::start(&config(Some(&folder.0))).unwrap();
    let recording = Recording::sample("{\"text\":\"a\"}");
    let (trace, call) = (recording.call.trace.id.clone(), recording.call.call_id.clone());
    recorder.offer(recording);
    recorder.stop();
    let next = Recorder::start(&config(Some(&folder.0))).unwrap();
    next.stop();
    for id in [&trace, &call] {
        let found = next.trace(id, &TraceReader::Operator).unwrap();
        assert_eq!((found.gateway.as_str(), found.events_json.len()), ("gateway-1", 2), "{found:?}");
    }
    let other = Recorder::start(&RecorderConfig { gateway: "other".to_owned(), ..config(Some(&folder.0)) }).unwrap();
    other.stop();
    assert!(other.trace(&trace, &TraceReader::Operator).is_none(), "each gateway answers for itself");
}

#[test]
fn a_reader_sees_the_calls_of_its_own_principal() {
    let recorder = Recorder::start(&config(None)).unwrap();
    let recording = Recording::sample("{}");
    let trace = recording.call.trace.id.clone();
    recorder.offer(recording);
    recorder.stop();
    let (anonymous, other) = (Principal::anonymous(), Principal::from_name("other"));
    for (reader, sees) in [
        (TraceReader::Operator, true),
        (TraceReader::Principal(anonymous), true),
        (TraceReader::Principal(other), false),
    ] {
        assert_eq!(list(&recorder, &reader).len(), usize::from(sees), "{reader:?}");
        assert_eq!(recorder.trace(&trace, &reader).is_some(), sees, "{reader:?}");
    }
}

#[test]
fn the_stderr_of_a_skill_is_for_operators_and_not_for_a_key_that_is_no_administrator() {
    let recorder = Recorder::start(&config(None)).unwrap();
    let mut recording = Recording::sample(r#"{"a":1,"stderr":"x=1"}"#);
    recording.result.stderr = "x=1".to_owned();
    recording.result.text = "last".to_owned();
    let trace = recording.call.trace.id.clone();
    recorder.offer(recording);
    recorder.stop();
    let result = |reader| {
        let line = recorder.trace(&trace, &reader).unwrap().events_json.pop().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let (whole, seen) = (result(TraceReader::Operator), result(TraceReader::Principal(Principal::nobody(""))));
    assert_eq!((&whole["stderr"], seen.get("stderr")), (&json!("x=1"), None));
    let mut expected = whole;
    expected.as_object_mut().unwrap().shift_remove("stderr");
    assert_eq!(seen, expected, "all else stays, also in the data");
}

#[test]
fn a_cursor_of_another_process_is_refused() {
    let recorder = Recorder::start(&config(None)).unwrap();
    recorder.stop();
    for cursor in ["x", "00000000-5", "-", "zzzzzzzz-1"] {
        let request = ListTracesRequest { cursor: cursor.to_owned(), ..ListTracesRequest::default() };
        assert_eq!(recorder.list(request, &TraceReader::Operator).unwrap_err(), UnknownCursor, "{cursor}");
    }
}

/// Returns how many recordings this process has dropped.
fn dropped() -> usize {
    let mut snapshot = openskill_telemetry::metrics::Snapshot::default();
    TELEMETRY.add_recording_counters(&mut snapshot);
    let text = openskill_telemetry::metrics::text::Format::Prometheus.encode(&snapshot);
    let value = text.lines().find_map(|it| it.strip_prefix("openskill_recordings_total{end=\"dropped\"} "));
    value.unwrap().parse().unwrap()
}

#[test]
fn recordings_that_find_the_queue_full_are_dropped_and_the_others_kept() {
    let (recorder, taken) = Recorder::idle();
    let large = "x".repeat(1024 * 1024);
    let before = dropped();
    (0..100).for_each(|_| recorder.offer(Recording::sample(&large)));
    let kept = std::iter::from_fn(|| taken.next()).count();
    assert!((10..64).contains(&kept), "{kept}");
    assert!(dropped() >= before + 100 - kept, "each is counted");
}

#[tokio::test]
async fn a_follower_that_is_slow_hears_how_many_calls_it_missed() {
    let recorder = Recorder::start(&config(None)).unwrap();
    let mut following = recorder.follow(Some(TraceFilter::default()), &TraceReader::Operator);
    recorder.offer(Recording::sample("{}"));
    assert_eq!(following.next().await.unwrap().len(), 1);
    let sender = recorder.state.ended.clone();
    let call = index::Summary::sample("t");
    (0..1000)
        .for_each(|number| drop(sender.send(thread::EndedCalls { before: 1 + number, calls: [call.clone()].into() })));
    let told = following.next().await.unwrap();
    assert_eq!((told[0].missed, told[0].call.is_none(), told[1].call.is_some()), (1000 - 256, true, true));
    recorder.stop();
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "the thread of the recorder waits for it, and nothing here")]
async fn a_follower_hears_of_a_call_when_its_events_can_be_read() {
    let recorder = Recorder::start(&config(None)).unwrap();
    let mut following = recorder.follow(None, &TraceReader::Operator);
    let recording = Recording::sample("{}");
    let call = recording.call.call_id.clone();
    {
        let _nothing_is_added = recorder.state.index.lock();
        recorder.offer(recording);
        let early = tokio::time::timeout(Duration::from_millis(100), following.next()).await;
        assert!(early.is_err(), "{early:?}");
    }
    assert_eq!(following.next().await.unwrap().len(), 1);
    assert!(recorder.trace(&call, &TraceReader::Operator).is_some());
    recorder.stop();
}

#[test]
fn attempts_are_told_once_with_their_times_and_errors_with_their_blame() {
    let mut recording = Recording::sample("{\"text\":\"a\"}");
    let at = |millis| recording.call.received + Duration::from_millis(millis);
    let failure = Some((ErrorCode::Unavailable, openskill_proto::v1::Blame::Worker));
    let end = AttemptSummary {
        number: 1,
        worker_id: "w".to_owned(),
        failure,
        may_have_run: true,
        ..AttemptSummary::default()
    };
    recording.events = vec![
        (at(1), CallEvent::AttemptBegan { number: 1, worker: "unix:/w".into(), streams: false }),
        (at(3), CallEvent::AttemptEnded(end)),
        (at(3), CallEvent::Circuit { scope: "session", state: "open" }),
    ];
    recording.result.error = Some(SkillError::unavailable("lost").with_details("{\"a\":1}".to_owned()));
    let lines = rendered(&recording);
    let names: Vec<_> = lines.iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["call", "attempt", "circuit", "result"]);
    let attempt = &lines[1];
    assert_eq!(
        (&attempt["at_us"], &attempt["took_us"], &attempt["blame"]),
        (&json!(1000), &json!(2000), &json!("worker"))
    );
    assert_eq!((&lines[3]["error"]["details"], &lines[3]["code"]), (&json!({"a": 1}), &json!("UNAVAILABLE")));
}

#[test]
fn lists_and_messages_are_bounded() {
    let mut recording = Recording::sample("{}");
    recording.result.warnings = vec!["w".repeat(10_000); 1000];
    recording.result.text = "t".repeat(10_000);
    let end = rendered(&recording).pop().unwrap();
    assert_eq!(end["warnings"].as_array().unwrap().len(), 64);
    assert!(end["text"].as_str().unwrap().len() < 4200 && end["text"].as_str().unwrap().ends_with('…'));
}

#[test]
fn torn_lines_and_those_of_other_versions_are_skipped() {
    let recorder = Renderer::new(Redactor::off(), "g".into());
    let mut text = recorder.header();
    let mut renderer = recorder;
    let mut places = Vec::new();
    for _ in 0..3 {
        places.push(text.len() as u64);
        renderer.write(&Recording::sample("{\"text\":\"a\"}"), &mut text);
    }
    let calls = |text: &[u8]| {
        let mut found = Vec::new();
        rebuild::read(text, 0, &mut NameInterner::default(), |call| found.push(call));
        found
    };
    let found = calls(&text);
    assert_eq!(found.iter().map(|it| it.start).collect::<Vec<_>>(), places);
    assert!(found.iter().all(|it| it.summary.code == "OK" && &*it.summary.skill_id == "echo"));
    for torn in 1..text.len() - places[2] as usize {
        assert_eq!(calls(&text[..text.len() - torn]).len(), 2, "{torn} bytes are missing");
    }
    let newer = String::from_utf8(text.clone()).unwrap().replacen("{\"v\":1,\"trace\"", "{\"v\":2,\"trace\"", 1);
    assert_eq!(calls(newer.as_bytes()).len(), 2);
    let garbled = [&text[..places[1] as usize], b"garbage\n\xff\n", &text[places[1] as usize..]].concat();
    assert_eq!(calls(&garbled).len(), 3);
}

#[test]
fn failures_are_logged_once_a_minute() {
    let mut log = FailureLog::default();
    let (error, now) = (std::io::Error::other("full"), Instant::now());
    let mut logged = |after| log.record_failure(1, &error, now + Duration::from_secs(after));
    assert_eq!([0, 1, 59, 60, 61, 119, 120].map(&mut logged), [true, false, false, true, false, false, true]);
}

fn store(folder: &Scratch, max_bytes: u64, header: Vec<u8>) -> FileStore {
    FileStore::new(folder.0.clone(), max_bytes, Duration::from_secs(3600), header)
}

#[test]
fn files_are_bounded_and_the_oldest_go_first() {
    let folder = Scratch::new();
    let (mut store, now) = (store(&folder, 1024 * 1024, b"{}\n".to_vec()), Instant::now());
    let mut first = None;
    for _ in 0..100 {
        let (segment, start) = store.append(&[b'x'; 50_000], now).unwrap();
        assert!(start >= 3);
        first.get_or_insert(segment);
    }
    let bytes: u64 = store.folder().unwrap().files().unwrap().iter().map(|it| it.bytes).sum();
    assert!((700_000..=1024 * 1024).contains(&bytes), "{bytes}");
    assert!(store.gone.len() > 30 && Arc::ptr_eq(&store.gone[0], &first.unwrap()));
}

#[test]
fn a_file_that_another_gateway_writes_is_not_removed() {
    let folder = Scratch::new();
    let store = || store(&folder, 1, b"{}\n".to_vec());
    let (mut one, mut other, now) = (store(), store(), Instant::now());
    let (kept, _) = one.append(b"{}\n", now).unwrap();
    for _ in 0..5 {
        other.append(&[b'x'; 200_000], now).unwrap();
    }
    assert!(folder.0.join(&kept.name).exists());
    one.close();
    other.append(&[b'x'; 200_000], now).unwrap();
    assert!(!folder.0.join(&kept.name).exists());
}

#[test]
fn a_restart_finds_the_latest_calls_of_files_that_are_too_large_to_be_read_whole() {
    let folder = Scratch::new();
    let mut renderer = Renderer::new(Redactor::off(), "gateway-1".into());
    let mut store = store(&folder, 16 << 20, renderer.header());
    let (mut lines, mut written) = (Vec::new(), 0);
    (0..10).for_each(|_| drop(renderer.write(&Recording::sample(&"x".repeat(10_000)), &mut lines)));
    // Files of 2 MiB, of which the last three megabytes are read.
    while written < 7 << 20 {
        store.append(&lines, Instant::now()).unwrap();
        written += lines.len();
    }
    store.close();
    let handle = Arc::new(TraceFolder::open(&folder.0).unwrap());
    let (mut calls, mut lost) = (0, 0);
    for (segment, part) in rebuild::files(&handle, "gateway-1", 3 << 20) {
        let lines = segment.lines(&part).unwrap();
        rebuild::read(lines, part.start, &mut NameInterner::default(), |call| {
            let text = segment.read(call.start, call.bytes).unwrap();
            let is_whole = text.starts_with(b"{\"v\":1,") && text.ends_with(b"}\n");
            calls += 1;
            lost += usize::from(!is_whole);
        });
    }
    let expected = (3 << 20) / (lines.len() / 10);
    assert_eq!(lost, 0);
    assert!((expected - 10..=expected).contains(&calls), "{calls} of {expected}");
}

#[test]
fn files_that_are_kept_are_not_held_open() {
    let folder = Scratch::new();
    let mut store = store(&folder, 64 << 20, b"{}\n".to_vec());
    let mut segments = Vec::new();
    for _ in 0..50 {
        let (segment, start) = store.append(b"{\"a\":1}\n", Instant::now()).unwrap();
        segments.push((segment, start));
        store.close();
    }
    let own = std::fs::canonicalize(&folder.0).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter_map(|it| std::fs::read_link(it.path()).ok()).filter(|it| it.starts_with(&own)).count();
    assert_eq!(open, 1, "the folder itself");
    assert!(segments.iter().all(|(segment, start)| segment.read(*start, 8).unwrap() == b"{\"a\":1}\n"[..8]));
}
