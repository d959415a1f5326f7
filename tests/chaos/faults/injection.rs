//! Injects faults, each kind in a lane of its own, at moments that the seed decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::board::Board;
use crate::proxy::Proxy;
use crate::random::Random;
use crate::settings::Settings;
use crate::stage::Stage;
use crate::table::Row;

const KILLS: usize = 200;
const STOPS: usize = 50;
const RESTARTS: usize = 20;
const RESETS: usize = 100;
const SLOWED: usize = 20;

/// How many workers may be stopped at the same time.
const STOPPED_AT_ONCE: usize = 2;
const STOPPED_FOR: Duration = Duration::from_secs(10);

/// A slow worker is stopped for the first and runs for the second, repeatedly.
const DUTY: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(10));
const SLOW_FOR: Duration = Duration::from_secs(3);

/// How often a lane checks whether it may go on, and how often the gateway is asked for its workers.
const LOOK: Duration = Duration::from_millis(50);

/// How much longer than planned the faults may take when victims are rare.
const OVERTIME: Duration = Duration::from_secs(90);

struct Lanes<'a> {
    stage: &'a Stage,
    board: &'a Board,
    proxies: &'a [Proxy],
    settings: &'a Settings,
    begun: Instant,
    time: Duration,
    done: [AtomicUsize; 5],
    died: AtomicUsize,
}

/// Injects all faults, and counts them.
pub(super) async fn run(
    stage: &Arc<Stage>,
    board: &Arc<Board>,
    proxies: &[Proxy],
    settings: &Settings,
    time: Duration,
) -> Vec<Row> {
    let time = settings.time(time);
    let (done, died) = Default::default();
    let lanes = Lanes { stage, board, proxies, settings, begun: Instant::now(), time, done, died };
    let stops = settings.count(STOPS);
    let all = async {
        tokio::join!(
            lanes.kills(),
            lanes.stops(stops - stops / STOPPED_AT_ONCE, "first"),
            lanes.stops(stops / STOPPED_AT_ONCE, "second"),
            lanes.restarts(),
            lanes.resets(),
            lanes.slowed()
        );
    };
    tokio::select! {
        () = all => {}
        () = lanes.watch() => {}
        () = sleep(time + OVERTIME) => {}
    }
    // A lane that was cut short may have left a worker stopped.
    for worker in 0..crate::stage::WORKERS {
        stage.signal(worker, Signal::CONT).await;
    }
    lanes.rows()
}

impl Lanes<'_> {
    async fn kills(&self) {
        let mut random = self.random("kills");
        for moment in random.moments(self.settings.count(KILLS), self.time) {
            let victim = self.victim(moment, &mut random).await;
            self.stage.replace_worker(victim, Signal::KILL).await;
            self.board.release(victim);
            self.count(0);
        }
    }

    async fn stops(&self, count: usize, name: &str) {
        let mut random = self.random(&format!("{name} stops"));
        for moment in random.moments(count, self.time.saturating_sub(STOPPED_FOR)) {
            let victim = self.victim(moment, &mut random).await;
            self.stage.signal(victim, Signal::STOP).await;
            sleep(STOPPED_FOR).await;
            self.stage.signal(victim, Signal::CONT).await;
            self.board.release(victim);
            self.count(1);
        }
    }

    /// Half of them by SIGTERM, half by SIGKILL.
    async fn restarts(&self) {
        let mut random = self.random("restarts");
        for (number, moment) in random.moments(self.settings.count(RESTARTS), self.time).into_iter().enumerate() {
            sleep_until(self.begun + moment).await;
            let killed = number % 2 == 1;
            self.board.gateway_goes(killed);
            self.stage.replace_gateway(if killed { Signal::KILL } else { Signal::TERM }).await;
            self.stage.wait_until_up(1).await;
            self.board.gateway_is_back();
            self.count(2);
        }
    }

    async fn resets(&self) {
        let mut random = self.random("resets");
        for moment in random.moments(self.settings.count(RESETS), self.time) {
            sleep_until(self.begun + moment).await;
            let victim = random.below(self.proxies.len());
            while !self.cut(victim) {
                sleep(LOOK).await;
            }
            self.count(3);
        }
    }

    fn cut(&self, proxy: usize) -> bool {
        // Recorded first: a broken call must not end before its reason is known.
        self.board.reset(proxy);
        self.proxies[proxy].reset()
    }

    async fn slowed(&self) {
        let mut random = self.random("slowed");
        for moment in random.moments(self.settings.count(SLOWED), self.time) {
            let victim = self.victim(moment, &mut random).await;
            let until = Instant::now() + SLOW_FOR;
            while Instant::now() < until {
                self.stage.signal(victim, Signal::STOP).await;
                sleep(DUTY.0).await;
                self.stage.signal(victim, Signal::CONT).await;
                sleep(DUTY.1).await;
            }
            self.board.release(victim);
            self.count(4);
        }
    }

    /// Polls which workers are up, and restarts those that ended by themselves. Never ends.
    async fn watch(&self) {
        loop {
            self.board.up(self.stage.up().await);
            self.died.fetch_add(self.stage.revive().await, Ordering::Relaxed);
            sleep(LOOK).await;
        }
    }

    /// Waits for the moment, and then for a worker that may get a fault.
    async fn victim(&self, moment: Duration, random: &mut Random) -> usize {
        sleep_until(self.begun + moment).await;
        loop {
            if let Some(victim) = self.board.claim(random) {
                return victim;
            }
            sleep(LOOK).await;
        }
    }

    fn random(&self, lane: &str) -> Random {
        Random::new(self.settings.seed, lane)
    }

    fn count(&self, lane: usize) {
        self.done[lane].fetch_add(1, Ordering::Relaxed);
    }

    fn rows(&self) -> Vec<Row> {
        let names = [
            "workers killed",
            "workers stopped for 10 s",
            "gateway restarts, half by SIGKILL",
            "connections reset",
            "workers slowed",
        ];
        let wanted = [KILLS, STOPS, RESTARTS, RESETS, SLOWED].map(|full| self.settings.count(full));
        let done = self.done.iter().map(|it| it.load(Ordering::Relaxed));
        let injected = names.iter().zip(done).zip(wanted);
        let mut rows: Vec<_> =
            injected.map(|((name, done), wanted)| Row::must(*name, done, wanted.to_string(), done == wanted)).collect();
        rows.push(Row::info("duration of the faults", format!("{:.0} s", self.begun.elapsed().as_secs_f64())));
        rows.push(Row::none("workers that ended by themselves", self.died.load(Ordering::Relaxed)));
        rows
    }
}
