//! The gateway's steps, one by one.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use openskill_proto::trace::Trace;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{InvokeRequest, Progress, Skill, WorkerState, execute_event};
use tokio::sync::mpsc;

use super::cases::aside;
use super::in_memory::{self, SKILL};
use super::sample::{VALID, schema};
use crate::arguments::{Definition, Rules, structs};
use crate::call::Call;
use crate::circuit::{Circuits, Rules as CircuitRules, breaker::Verdict};
use crate::invoke::finish;
use crate::metrics::Metrics;
use crate::outcome::Outcome;
use crate::preparation::prepare;
use crate::recorder::Record;
use crate::relay::Listener;
use crate::workers::Worker;
use crate::workers::pick::{Candidate, Wanted, pick};
use crate::workers::source::Endpoint;

fn call(arguments: Arguments) -> Call {
    let request = InvokeRequest {
        skill_id: SKILL.to_owned(),
        arguments: Some(arguments),
        call_id: "call-1".to_owned(),
        session_id: "session-1".to_owned(),
        ..InvokeRequest::default()
    };
    Call::new(request, Trace::from_headers(Some(b"trace-1"), None, None), None)
}

fn json_call(text: &str) -> Call {
    call(Arguments::InputJson(text.to_owned()))
}

/// Arguments that fit.
pub(super) fn arguments_valid() -> Box<dyn FnMut()> {
    arguments(VALID, |repairs| repairs == Some(0))
}

/// A number that is text.
pub(super) fn arguments_repaired() -> Box<dyn FnMut()> {
    arguments(&VALID.replace("25", "\"25\""), |repairs| repairs == Some(1))
}

/// Text that is no number: the model is told what would be right.
pub(super) fn arguments_refused() -> Box<dyn FnMut()> {
    arguments(&VALID.replace("25", "\"many\""), |repairs| repairs.is_none())
}

fn arguments(text: &str, expected: fn(Option<usize>) -> bool) -> Box<dyn FnMut()> {
    let definition = Definition::compile(&schema().to_string(), Rules::default(), &[]).unwrap();
    let (call, metrics) = (json_call(text), Metrics::default());
    Box::new(move || {
        let prepared = prepare(black_box(&call), &definition, &metrics);
        assert!(expected(prepared.ok().map(|it| it.repairs.len())));
    })
}

/// Admission and report of a call that succeeds: session and skill have circuits, both closed.
pub(super) fn circuit_check() -> Box<dyn FnMut()> {
    let (circuits, metrics, now) = (Circuits::new(CircuitRules::default()), Metrics::default(), Instant::now());
    let skill = Skill { id: SKILL.to_owned(), ..Skill::default() };
    Box::new(move || {
        let passes = circuits.admit(black_box(&skill), black_box("session-1"), now, &metrics).unwrap();
        circuits.report(&skill.id, passes, Verdict::Success, now, &metrics);
    })
}

/// Choosing among so many workers that all have had calls.
pub(super) fn pick_of(count: u32) -> Box<dyn FnMut()> {
    let now = Instant::now();
    let candidates: Vec<_> = (0..count).map(|number| candidate(number, now)).collect();
    Box::new(move || {
        let wanted = Wanted { tried: &[], left: Duration::from_secs(15), adaptive: true, now };
        black_box(pick(black_box(&candidates), wanted).unwrap());
    })
}

fn candidate(number: u32, now: Instant) -> Candidate {
    let id = format!("worker-{number:02}");
    let worker = Worker::new(Endpoint::Tcp(id.clone()), 1);
    worker.learn(WorkerState { worker_id: id.clone(), instance_id: id, capacity: 16, ..WorkerState::default() });
    let latency = worker.latency_of(SKILL);
    let took = Duration::from_millis(u64::from(number) + 1);
    latency.observe(took, took, now);
    Candidate { worker: Arc::new(worker), latency }
}

/// From a worker's result to the caller's, for one that sent JSON.
pub(super) fn relay_json() -> Box<dyn FnMut()> {
    relay(json_call(VALID))
}

/// The same for one that sent a `Struct`, and wants a `Value`.
pub(super) fn relay_value() -> Box<dyn FnMut()> {
    relay(call(Arguments::Input(structs::struct_from_json(VALID).unwrap())))
}

fn relay(call: Call) -> Box<dyn FnMut()> {
    let call = Arc::new(call);
    let gateway = in_memory::gateway();
    let answer = Outcome {
        result: in_memory::answer(),
        attempts: 1,
        may_have_run: true,
        repairs: Vec::new(),
        warnings: Vec::new(),
    };
    Box::new(move || {
        let outcome = aside(|| answer.clone());
        let result = finish(&gateway, black_box(&call), outcome, Record::begin(&call));
        assert!(result.success && result.output.is_some());
        call.is_told.store(false, std::sync::atomic::Ordering::Relaxed);
    })
}

/// An event of a skill on its way to a client that reads.
pub(super) fn relay_event() -> Box<dyn FnMut()> {
    let (events, mut client) = mpsc::channel(8);
    let listener = Listener::new("call-1".to_owned(), events);
    let progress = Progress { message: "half way".to_owned(), ..Progress::default() };
    Box::new(move || {
        let event = aside(|| execute_event::Event::Progress(progress.clone()));
        listener.relay(event).now_or_never().unwrap();
        assert!(client.try_recv().unwrap().open().is_some());
    })
}
