//! The load generator, a closed loop: each caller has one call in flight all the time. All callers are tasks of one
//! current-thread runtime on a thread of its own, whatever they call.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use openskill_tests::own_thread::on_own_thread;
use openskill_tests::quantile::{median, quantile};
use tokio::task::JoinSet;

use crate::caller::{Caller, Failure, Target, dial};
use crate::usage::Table;

/// What precedes a measurement to warm up, as a share of it.
const WARM_UP: f64 = 0.25;

/// A cell waits for this many calls and for one of each caller, up to [`LONGEST`].
const LEAST_CALLS: usize = 20;
const LONGEST: Duration = Duration::from_secs(12);

/// How long the calls that are in flight at the end may take.
const DRAIN: Duration = Duration::from_secs(12);

/// How long a caller that was shed waits. The wait is part of its latency.
const BACK_OFF: Duration = Duration::from_millis(20);

const CONNECT: Duration = Duration::from_secs(15);

/// One measurement. Only calls that succeeded count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Processor time of what is called, for each call.
    pub(crate) cpu: Duration,
    /// Not every caller's call ended: latencies are longer than what is shown.
    pub(crate) is_cut: bool,
    /// Calls were still in flight when the drain was over.
    pub(crate) is_stuck: bool,
}

impl Cell {
    /// The median of each figure, so that one spoilt round does not count.
    pub(crate) fn median(cells: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> Duration| median(cells.iter().map(figure).collect());
        Self {
            per_second: median(cells.iter().map(|it| it.per_second).collect()),
            p50: of(|it| it.p50),
            p99: of(|it| it.p99),
            cpu: of(|it| it.cpu),
            is_cut: cells.iter().any(|it| it.is_cut),
            is_stuck: cells.iter().any(|it| it.is_stuck),
        }
    }
}

#[derive(Default)]
struct State {
    is_counting: bool,
    is_over: bool,
    /// Of the calls that ended while the state was counting.
    latencies: Vec<Duration>,
    failure: Option<String>,
}

type Shared = Rc<RefCell<State>>;

/// Measures `callers` callers of a target whose processes descend from `roots`.
pub(crate) async fn measure(target: Target, callers: usize, time: Duration, roots: Vec<i32>) -> Result<Cell, String> {
    on_own_thread(move || async move { cell(&target, callers, time, roots).await }).await
}

async fn cell(target: &Target, callers: usize, time: Duration, roots: Vec<i32>) -> Result<Cell, String> {
    let connected = tokio::time::timeout(CONNECT, dial(target, callers)).await;
    let connected = connected.map_err(|_| "the callers did not connect in time".to_owned())??;
    let shared = Shared::default();
    let mut tasks = JoinSet::new();
    for caller in connected {
        tasks.spawn_local(repeat(caller, Rc::clone(&shared)));
    }
    tokio::time::sleep(time.mul_f64(WARM_UP)).await;
    let (used, begun) = (processor_time(&roots).await, Instant::now());
    shared.borrow_mut().is_counting = true;
    let least = LEAST_CALLS.max(callers);
    let is_cut = !wait(&shared, begun, time, least).await;
    shared.borrow_mut().is_counting = false;
    let elapsed = begun.elapsed().as_secs_f64();
    let used = processor_time(&roots).await.saturating_sub(used);
    shared.borrow_mut().is_over = true;
    let drained = tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    let State { latencies, failure, .. } = shared.take();
    if let Some(failure) = failure {
        return Err(failure);
    }
    if latencies.is_empty() {
        return Err(format!("no call ended within {elapsed:.1} s"));
    }
    Ok(Cell {
        per_second: latencies.len() as f64 / elapsed,
        cpu: used.div_f64(latencies.len() as f64),
        p50: median(latencies.clone()),
        p99: quantile(latencies, 0.99),
        is_cut,
        is_stuck: drained.is_err(),
    })
}

/// Call after call. A failure ends the cell: its figures would mean nothing.
async fn repeat(mut caller: Caller, shared: Shared) {
    while !shared.borrow().is_over {
        let begun = Instant::now();
        let called = loop {
            match caller.call().await {
                Err(Failure::Shed) if !shared.borrow().is_over => tokio::time::sleep(BACK_OFF).await,
                called => break called,
            }
        };
        let mut state = shared.borrow_mut();
        match called {
            Ok(()) if state.is_counting => state.latencies.push(begun.elapsed()),
            Err(Failure::Broken(reason)) if !state.is_over => {
                state.failure.get_or_insert(reason);
                state.is_over = true;
            }
            _ => {}
        }
    }
}

/// Waits until the time is over and enough calls have ended. False if they have not.
async fn wait(shared: &Shared, begun: Instant, time: Duration, least: usize) -> bool {
    tokio::time::sleep(time).await;
    loop {
        let (calls, over) = (shared.borrow().latencies.len(), shared.borrow().is_over);
        if over || calls >= least || begun.elapsed() >= LONGEST {
            return calls >= least;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Read on another thread, so that the callers go on meanwhile.
async fn processor_time(roots: &[i32]) -> Duration {
    let roots = roots.to_vec();
    tokio::task::spawn_blocking(move || Table::read().cpu(&roots)).await.unwrap_or_default()
}
