//! Tests of the CPU time of trees whose processes end one after the other.

use std::time::Duration;

use super::actor::Actor;
use super::{BOUNDS, Found};
use crate::bounds::{Meter, TreeBounds};
use crate::require::{Need, skip};

/// A program that starts children one after the other on request. Each uses some CPU time, and half of them become
/// orphans. It prints when it is ready, and then how much CPU time all have used since the request, in
/// milliseconds.
const BURN: &str = "import ctypes, os, time\n\
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n\
    def burn():\n\
    \x20   while time.process_time() < 0.03:\n\
    \x20       pass\n\
    \x20   os._exit(0)\n\
    def used():\n\
    \x20   return sum(os.times()[:4])\n\
    print('ACTOR ready', flush=True)\n\
    input()\n\
    before = used()\n\
    for number in range(20):\n\
    \x20   if os.fork() == 0:\n\
    \x20       if number % 2 == 0 or os.fork() == 0:\n\
    \x20           burn()\n\
    \x20       os._exit(0)\n\
    \x20   os.wait()\n\
    \x20   number % 2 and os.wait()\n\
    print('ACTOR', round((used() - before) * 1000), flush=True)\n\
    input()\n";

/// Measures while the program runs, and once after it has finished. Returns the time that it printed, and the time
/// that the measurements found.
fn burnt(mut actor: Actor, mut look: impl FnMut() -> Duration) -> (Duration, Duration) {
    // An interpreter that is still starting uses CPU time that it does not report.
    assert_eq!(actor.hear().as_deref(), Some("ready"));
    let before = look();
    actor.tell("");
    let said = std::thread::scope(|scope| {
        let hearing = scope.spawn(|| actor.hear());
        let mut last = before;
        while !hearing.is_finished() {
            let now = look();
            assert!(now >= last, "it became less: {last:?}, {now:?}");
            last = now;
        }
        hearing.join().unwrap()
    });
    (Duration::from_millis(said.unwrap().parse().unwrap()), look() - before)
}

#[test]
fn a_meter_counts_the_cpu_time_of_what_has_ended_too() {
    let Some(actor) = Actor::python(BURN) else { return skip(Need::Python, "no python3") };
    let mut meter = Meter::for_tree(BOUNDS, actor.pid(), None);
    let (said, counted) = burnt(actor, || meter.measure().cpu);
    assert!(said >= Duration::from_millis(500), "{said:?}");
    // Printing uses some CPU time, and both times are rounded.
    let margin = Duration::from_millis(150);
    assert!(counted + margin >= said && counted <= said + margin, "{counted:?} of {said:?}");
}

#[test]
fn a_group_counts_the_cpu_time_of_what_has_ended_too() {
    let Some(found) = Found::here() else { return };
    let Some(actor) = Actor::python(BURN) else { return skip(Need::Python, "no python3") };
    let group = found.group("burnt", BOUNDS);
    assert_eq!(found.group("endless", TreeBounds { cpu_seconds: u64::MAX, ..BOUNDS }).cpu(), None);
    if group.cpu().is_none() {
        return skip(Need::Cgroups, "no cgroup counts CPU time");
    }
    group.add(actor.pid()).unwrap();
    let (said, counted) = burnt(actor, || group.cpu().unwrap());
    assert!(counted + Duration::from_millis(50) >= said, "{counted:?} of {said:?}");
}
