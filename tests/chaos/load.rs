//! Load: closed (a number of callers, each waits for its answer) and open (calls arrive at random).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::call::{Called, Caller, Job};
use crate::random::Random;

/// Makes the next call.
pub(crate) type Mix = Arc<dyn Fn(&mut Random) -> Job + Send + Sync>;

/// Sends calls until it is stopped. Dropping it cancels all its calls.
#[derive(Debug)]
pub(crate) struct OpenLoad {
    stop: Arc<AtomicBool>,
    sender: JoinSet<Sent>,
}

/// Calls that were sent. Some may still be in flight.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    calls: JoinSet<Called>,
    /// How late each call was sent.
    pub(crate) late: Vec<Duration>,
}

impl OpenLoad {
    /// Sends `per_second` calls at random moments, however earlier calls fare.
    pub(crate) fn start(caller: &Caller, mix: &Mix, per_second: f64, random: Random) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut sender = JoinSet::new();
        sender.spawn(send(caller.clone(), Arc::clone(mix), per_second, random, Arc::clone(&stop)));
        Self { stop, sender }
    }

    /// Stops sending.
    pub(crate) async fn stop(mut self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        match self.sender.join_next().await {
            Some(sent) => sent.expect("sending does not panic"),
            None => Sent::default(),
        }
    }
}

impl Sent {
    /// Waits until all have ended.
    pub(crate) async fn finish(mut self) -> Vec<Called> {
        let mut ended = Vec::new();
        while let Some(called) = self.calls.join_next().await {
            ended.push(called.expect("a call does not panic"));
        }
        ended
    }
}

async fn send(caller: Caller, mix: Mix, per_second: f64, mut random: Random, stop: Arc<AtomicBool>) -> Sent {
    let mut sent = Sent::default();
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        due += random.arrival(per_second);
        tokio::time::sleep_until(due.into()).await;
        let (caller, job) = (caller.clone(), mix(&mut random));
        sent.late.push(due.elapsed());
        sent.calls.spawn(async move { caller.call(job).await });
    }
    sent
}

/// Sends for a time.
pub(crate) async fn open(caller: &Caller, mix: &Mix, per_second: f64, time: Duration, random: Random) -> Sent {
    let load = OpenLoad::start(caller, mix, per_second, random);
    tokio::time::sleep(time).await;
    load.stop().await
}

/// Successes per second of `callers` with one call in flight each. The first fifth of the time warms up.
pub(crate) async fn saturation(caller: &Caller, mix: &Mix, callers: usize, time: Duration, random: &mut Random) -> f64 {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..callers {
        let (caller, mix) = (caller.clone(), Arc::clone(mix));
        let mut random = Random::new(random.next(), &format!("caller {number}"));
        tasks.spawn(async move {
            let mut done = 0_usize;
            while begun.elapsed() < time {
                let called = caller.call(mix(&mut random)).await;
                let counts = called.is_ok() && begun.elapsed() > time / 5 && begun.elapsed() <= time;
                done += usize::from(counts);
            }
            done
        });
    }
    let done: usize = tasks.join_all().await.into_iter().sum();
    done as f64 / (time.as_secs_f64() * 0.8)
}
