//! A closed loop: each caller has one call under way, all the time. All callers are tasks of one current-thread runtime on
//! a thread of its own, whatever they call.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use openskill_tests::own_thread::on_own_thread;
use openskill_tests::quantile::{median, quantile};
use tokio::task::JoinSet;

use crate::caller::{Caller, Failure, Target, dial};
use crate::usage::Table;

/// How long a cell takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Before anything counts.
    pub(crate) warm: Duration,
    /// What counts, for contenders that are quick enough.
    pub(crate) measured: Duration,
}

/// So many calls are waited for, and one of each caller, up to [`SLOW`].
const LEAST_CALLS: usize = 20;
const SLOW: Duration = Duration::from_millis(1500);

/// How long callers may take for the calls they have under way when a cell is over.
const DRAIN: Duration = Duration::from_secs(12);

/// Who is refused for overload comes again after this; the wait counts.
const BACK_OFF: Duration = Duration::from_millis(20);

/// How long connecting may take, with the first call of each.
const CONNECT: Duration = Duration::from_secs(15);

/// What was found. Only successes count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Processor time of the contender, for each call.
    pub(crate) cpu: Duration,
    /// So many times was a call refused for overload, for each one that succeeded.
    pub(crate) refused: f64,
    /// Calls that did not end in time were abandoned: what serves them may still be busy.
    pub(crate) abandoned: bool,
}

/// What callers and clock share.
#[derive(Default)]
struct State {
    counting: bool,
    stopping: bool,
    /// Of the calls that ended while it was counted.
    counted: Vec<Duration>,
    /// Of those that ended before or after.
    others: Vec<Duration>,
    /// While it was counted.
    refusals: usize,
    failure: Option<String>,
}

type Shared = Rc<RefCell<State>>;

/// Puts `callers` callers on a target whose processes descend from `roots`.
pub(crate) async fn measure(target: Target, callers: usize, timing: Timing, roots: Vec<i32>) -> Result<Cell, String> {
    on_own_thread(move || async move { cell(&target, callers, timing, roots).await }).await
}

/// Makes so many calls, as quickly as they go.
pub(crate) async fn exhaust(target: Target, callers: usize, calls: usize) -> Result<(), String> {
    on_own_thread(move || async move {
        let shared = Shared::default();
        let mut tasks = JoinSet::new();
        for mut caller in dial(&target, callers).await? {
            let shared = Rc::clone(&shared);
            tasks.spawn_local(async move {
                for _ in 0..calls.div_ceil(callers) {
                    persist(&mut caller, &shared).await?;
                }
                Ok::<_, String>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| error.to_string())??;
        }
        Ok(())
    })
    .await
}

async fn cell(target: &Target, callers: usize, timing: Timing, roots: Vec<i32>) -> Result<Cell, String> {
    let connected = tokio::time::timeout(CONNECT, dial(target, callers)).await;
    let connected = connected.map_err(|_| format!("not connected within {} s", CONNECT.as_secs()))??;
    let shared = Shared::default();
    let mut tasks = JoinSet::new();
    let whole = Span::begin(&roots).await;
    for caller in connected {
        tasks.spawn_local(repeat(caller, Rc::clone(&shared)));
    }
    tokio::time::sleep(timing.warm).await;
    let window = Span::begin(&roots).await;
    shared.borrow_mut().counting = true;
    let least = LEAST_CALLS.max(callers);
    wait(&shared, window.begun, timing.measured, least).await;
    shared.borrow_mut().counting = false;
    let window = window.end(&roots).await;
    shared.borrow_mut().stopping = true;
    let drained = tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    let State { counted: mut calls, others, refusals, failure, .. } = shared.take();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut span = window;
    if calls.len() < least {
        // Not everybody's turn came: those that did would be the quickest. All count then, from the first to the last.
        calls.extend(others);
        span = whole.end(&roots).await;
    }
    let refused = refusals as f64 / calls.len().max(1) as f64;
    figures(calls, span).map(|cell| Cell { refused, abandoned: drained.is_err(), ..cell })
}

/// A stretch of time, and the processor time that went by within.
struct Span {
    begun: Instant,
    elapsed: Duration,
    cpu: Duration,
}

impl Span {
    async fn begin(roots: &[i32]) -> Self {
        let cpu = processor_time(roots).await;
        Self { begun: Instant::now(), elapsed: Duration::ZERO, cpu }
    }

    async fn end(self, roots: &[i32]) -> Self {
        let elapsed = self.begun.elapsed();
        let cpu = processor_time(roots).await.saturating_sub(self.cpu);
        Self { elapsed, cpu, ..self }
    }
}

/// Call after call. After a failure no more: the cell is worth nothing.
async fn repeat(mut caller: Caller, shared: Shared) {
    while !shared.borrow().stopping {
        let begun = Instant::now();
        let called = persist(&mut caller, &shared).await;
        let mut state = shared.borrow_mut();
        match called {
            Ok(()) if state.counting => state.counted.push(begun.elapsed()),
            Ok(()) => state.others.push(begun.elapsed()),
            // Nothing was begun when it was over.
            Err(_) if state.stopping => {}
            Err(failure) => {
                state.failure.get_or_insert(failure);
                state.stopping = true;
            }
        }
    }
}

/// One call, as often as it takes.
async fn persist(caller: &mut Caller, shared: &Shared) -> Result<(), String> {
    loop {
        match caller.call().await {
            Ok(()) => return Ok(()),
            Err(Failure::Broken(reason)) => return Err(reason),
            Err(Failure::Refused) if shared.borrow().stopping => return Err("refused to the end".to_owned()),
            Err(Failure::Refused) => {
                let mut state = shared.borrow_mut();
                state.refusals += usize::from(state.counting);
            }
        }
        tokio::time::sleep(BACK_OFF).await;
    }
}

/// Until there is enough to tell.
async fn wait(shared: &Shared, begun: Instant, measured: Duration, least: usize) {
    tokio::time::sleep(measured).await;
    loop {
        let (calls, failed) = (shared.borrow().counted.len(), shared.borrow().stopping);
        if failed || calls >= least || begun.elapsed() >= SLOW {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Read on another thread: the callers go on meanwhile.
async fn processor_time(roots: &[i32]) -> Duration {
    let roots = roots.to_vec();
    tokio::task::spawn_blocking(move || Table::read().cpu(&roots)).await.unwrap_or_default()
}

fn figures(calls: Vec<Duration>, span: Span) -> Result<Cell, String> {
    let elapsed = span.elapsed.as_secs_f64();
    if calls.is_empty() {
        return Err(format!("no call ended within {elapsed:.1} s"));
    }
    let per_second = calls.len() as f64 / elapsed;
    let cpu = span.cpu.div_f64(calls.len() as f64);
    let (p50, p99) = (median(calls.clone()), quantile(calls, 0.99));
    Ok(Cell { per_second, p50, p99, cpu, ..Cell::default() })
}
