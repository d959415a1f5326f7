//! CPU time of trees whose processes end one after the other.

use std::time::Duration;

use super::actor::Actor;
use super::{BOUNDS, Found};
use crate::process::bounds::{Bounds, Meter};
use crate::require::{Need, skip};

/// A program that, told to, starts children one after the other, which each use some CPU time, half of them as orphans of
/// others. It says when it is ready, and then how much all have used since it was told, in milliseconds.
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

/// Looks while the program runs, and once when it has done its work. What it says, and what it used by the last look.
fn burnt(mut actor: Actor, mut look: impl FnMut() -> Duration) -> (Duration, Duration) {
    // An interpreter that still starts uses CPU time that it does not report.
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
    let mut meter = Meter::of_tree(BOUNDS, actor.pid(), None).unwrap();
    let (said, counted) = burnt(actor, || meter.measure().unwrap().cpu);
    assert!(said >= Duration::from_millis(500), "{said:?}");
    // Saying it takes some, and both are rounded.
    let margin = Duration::from_millis(150);
    assert!(counted + margin >= said && counted <= said + margin, "{counted:?} of {said:?}");
}

#[test]
fn a_group_counts_the_cpu_time_of_what_has_ended_too() {
    let Some(found) = Found::here() else { return };
    let Some(actor) = Actor::python(BURN) else { return skip(Need::Python, "no python3") };
    let group = found.group("burnt", BOUNDS);
    assert_eq!(found.group("endless", Bounds { cpu_seconds: u64::MAX, ..BOUNDS }).cpu(), None);
    if group.cpu().is_none() {
        return skip(Need::Cgroups, "no cgroup counts CPU time");
    }
    group.add(actor.pid()).unwrap();
    let (said, counted) = burnt(actor, || group.cpu().unwrap());
    assert!(counted + Duration::from_millis(50) >= said, "{counted:?} of {said:?}");
}
