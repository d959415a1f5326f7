//! Choosing a worker for a call: of two at random, the one where the call is likely to end sooner.
//!
//! What is compared is how long calls of this skill take there, times the calls there are. Two at random and not the best
//! of all, so that gateways that know the same do not all run to the same worker (Mitzenmacher, "The Power of Two
//! Choices in Randomized Load Balancing").

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Worker;
use super::latency::Latency;
use super::record::Standing;

/// A worker that can run a skill.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) worker: Arc<Worker>,
    /// How long calls of the skill take there.
    pub(crate) latency: Arc<Latency>,
}

/// Why there is no worker for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nobody {
    /// None is up that was not tried yet.
    IsUp,
    /// Those that are have no place.
    HasRoom,
}

/// What is asked of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Where the call was already.
    pub(crate) tried: &'a [Arc<Worker>],
    /// The time the call has left.
    pub(crate) left: Duration,
    pub(crate) adaptive: bool,
    pub(crate) now: Instant,
}

/// A worker that was not tried yet, takes calls and has room.
pub(crate) fn pick<'a>(candidates: &'a [Candidate], wanted: Wanted<'_>) -> Result<&'a Candidate, Nobody> {
    let mut choices = choices(candidates, wanted)?;
    loop {
        let chosen = better_of_two(&choices, wanted.now);
        // Of calls that would try an ejected worker at once, one does.
        if choices.len() == 1 || chosen.worker.record.claim(wanted.now) {
            return Ok(chosen);
        }
        choices.retain(|it| !std::ptr::eq(*it, chosen));
    }
}

/// All such workers, at least one. Those that are left out are taken only if there are no others, or if the others are
/// full and fewer than they: when most seem to be down, it is rather the machine that is slow.
pub(super) fn choices<'a>(candidates: &'a [Candidate], wanted: Wanted<'_>) -> Result<Vec<&'a Candidate>, Nobody> {
    let (mut fit, mut out, mut full) = (Vec::new(), Vec::new(), 0);
    for it in candidates {
        let worker = &it.worker;
        if !worker.is_serving() || wanted.tried.iter().any(|tried| Arc::ptr_eq(tried, worker)) {
            continue;
        }
        let may_wait = wanted.left.saturating_sub(it.latency.usual_run());
        match worker.record.standing(worker.in_flight(), may_wait, wanted.adaptive, wanted.now) {
            Standing::Fit => fit.push(it),
            Standing::Out => out.push(it),
            Standing::Full => full += 1,
        }
    }
    match (fit.is_empty(), full, out.len()) {
        (false, _, _) => Ok(fit),
        (true, full, outside) if outside > full => Ok(out),
        (true, 0, _) => Err(Nobody::IsUp),
        (true, _, _) => Err(Nobody::HasRoom),
    }
}

/// `among` is not empty.
fn better_of_two<'a>(among: &[&'a Candidate], now: Instant) -> &'a Candidate {
    let count = among.len();
    let first = rand::random_range(0..count);
    if count == 1 {
        return among[first];
    }
    let second = (first + rand::random_range(1..count)) % count;
    let (one, other) = (among[first], among[second]);
    if is_sooner(other, one, now) { other } else { one }
}

fn is_sooner(one: &Candidate, other: &Candidate, now: Instant) -> bool {
    // A free place beats any latency: what is known of that is an average of the past.
    let must_wait = |it: &Candidate| it.worker.in_flight() >= it.worker.record.capacity();
    let load = |it: &Candidate| f64::from(it.worker.in_flight()) + 1.0;
    let cost = match (one.latency.read(now), other.latency.read(now)) {
        (Some(mine), Some(yours)) => (mine * load(one), yours * load(other)),
        // One that was never asked is judged by its load alone.
        _ => (load(one), load(other)),
    };
    (must_wait(one), cost.0) < (must_wait(other), cost.1)
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::WorkerState;

    use super::super::ejection::{Conduct, THRESHOLD};
    use super::super::record::Ended;
    use super::super::source::Endpoint;
    use super::*;

    fn candidate(name: &str, draining: bool) -> Candidate {
        let worker = Worker::new(Endpoint::Tcp(name.to_owned()), 1);
        worker.learn(WorkerState { draining, capacity: 4, instance_id: name.to_owned(), ..WorkerState::default() });
        Candidate { worker: Arc::new(worker), latency: Arc::default() }
    }

    fn wanted(tried: &[Arc<Worker>]) -> Wanted<'_> {
        Wanted { tried, left: Duration::from_secs(1), adaptive: true, now: Instant::now() }
    }

    fn share_of_first(candidates: &[Candidate]) -> usize {
        let first = |_: &usize| std::ptr::eq(pick(candidates, wanted(&[])).unwrap(), &raw const candidates[0]);
        (0..1000).filter(first).count()
    }

    fn fail(candidate: &Candidate) {
        for _ in 0..THRESHOLD {
            let era = candidate.worker.record.begin(Instant::now());
            let ended = Ended { era, conduct: Conduct::Bad, waited: None, ran: None, was_full: false, in_flight: 1 };
            candidate.worker.record.end(ended, Instant::now(), || true);
        }
    }

    #[test]
    fn of_two_the_less_busy_one_is_chosen() {
        let candidates = [candidate("a", false), candidate("b", false)];
        let _busy = candidates[0].worker.begin();
        assert_eq!(share_of_first(&candidates), 0);
    }

    #[test]
    fn equals_share_the_calls() {
        let share = share_of_first(&[candidate("a", false), candidate("b", false)]);
        assert!((300..700).contains(&share), "{share}");
    }

    #[test]
    fn a_slow_one_gets_fewer_calls_though_it_is_less_busy() {
        let candidates = [candidate("a", false), candidate("b", false)];
        candidates[0].latency.observe(Duration::from_millis(100), Duration::from_millis(100), Instant::now());
        candidates[1].latency.observe(Duration::from_millis(10), Duration::from_millis(10), Instant::now());
        let _busy = [candidates[1].worker.begin(), candidates[1].worker.begin()];
        assert_eq!(share_of_first(&candidates), 0);
    }

    #[test]
    fn one_that_drains_was_tried_or_is_held_is_left_out() {
        let candidates = [candidate("a", false), candidate("b", true), candidate("c", false)];
        candidates[2].worker.hold(true);
        let tried = [Arc::clone(&candidates[0].worker)];
        assert_eq!(pick(&candidates, wanted(&tried)).unwrap_err(), Nobody::IsUp);
    }

    #[test]
    fn one_that_fails_is_left_out_unless_there_is_no_other() {
        let candidates = [candidate("a", false), candidate("b", false)];
        fail(&candidates[0]);
        assert_eq!(share_of_first(&candidates), 0);
        candidates[1].worker.hold(true);
        assert_eq!(share_of_first(&candidates), 1000);
    }

    #[test]
    fn a_call_that_would_wait_past_its_deadline_is_told_so() {
        let candidates = [candidate("a", false)];
        let era = candidates[0].worker.record.begin(Instant::now());
        let (waited, ran) = (Some(Duration::ZERO), Some(Duration::from_secs(1)));
        let ended = Ended { era, conduct: Conduct::Good, waited, ran, was_full: false, in_flight: 1 };
        candidates[0].worker.record.end(ended, Instant::now(), || true);
        candidates[0].latency.observe(Duration::from_secs(1), Duration::from_secs(1), Instant::now());
        let _calls: Vec<_> = (0..8).map(|_| candidates[0].worker.begin()).collect();
        // Four run and four wait: a place is free in about a second, and the call runs for another.
        let with = |left: f64| pick(&candidates, Wanted { left: Duration::from_secs_f64(left), ..wanted(&[]) });
        assert_eq!(with(2.0).unwrap_err(), Nobody::HasRoom);
        assert!(with(3.0).is_ok());
    }

    #[test]
    fn those_that_have_what_they_may_have_are_full() {
        let candidates = [candidate("a", false)];
        let _calls: Vec<_> =
            (0..candidates[0].worker.record.limit() * 3 / 2).map(|_| candidates[0].worker.begin()).collect();
        assert_eq!(pick(&candidates, wanted(&[])).unwrap_err(), Nobody::HasRoom);
        assert!(pick(&candidates, Wanted { adaptive: false, ..wanted(&[]) }).is_ok());
    }
}
