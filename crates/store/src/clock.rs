//! The time of a store. Gateways that share a database use its clock, so their own need not agree.
//!
//! A gateway measures how far the database's clock is ahead of a clock that never jumps, and counts on from there: a step of
//! the gateway's own clock changes nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::{Engine, Row, Statement, StoreError};

const READ_TIME: &str = "SELECT CAST(extract(epoch from clock_timestamp()) * 1000000 AS BIGINT)";

/// How often the database's clock is measured, and how soon again after a measurement that says little.
const INTERVAL: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(5);

/// A measurement that took longer may be wrong by half of this.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(200);

/// How often it is measured at the start, until a measurement was fast enough.
const FIRST_TRIES: usize = 3;

/// The database's clock has jumped if it is further from where it should be.
const STEP_US: i64 = 1_000_000;

/// How long after a jump all gateways have measured again, and renewed their leases.
const SETTLING: Duration = Duration::from_secs(90);

/// Follows the clock of a database.
#[derive(Debug)]
pub(crate) struct DatabaseClock {
    begun: Instant,
    /// The database's time at `begun`, in microseconds since 1970.
    offset_us: AtomicI64,
    /// When leases can be trusted again after a jump, in microseconds after `begun`.
    settled_us: AtomicI64,
}

/// One look at the database's clock.
struct Measurement {
    offset_us: i64,
    round_trip: Duration,
}

impl DatabaseClock {
    /// Measures the clock, and follows it for as long as the engine lives.
    pub(crate) async fn follow(engine: &Arc<dyn Engine>) -> Result<Arc<Self>, StoreError> {
        let clock = Self { begun: Instant::now(), offset_us: AtomicI64::new(0), settled_us: AtomicI64::new(0) };
        let mut best = clock.measure(&**engine).await?;
        for _ in 1..FIRST_TRIES {
            if best.round_trip > MAX_ROUND_TRIP {
                let again = clock.measure(&**engine).await?;
                best = if again.round_trip < best.round_trip { again } else { best };
            }
        }
        clock.offset_us.store(best.offset_us, Ordering::Relaxed);
        let clock = Arc::new(clock);
        tokio::spawn(Arc::clone(&clock).measure_again(Arc::downgrade(engine)));
        Ok(clock)
    }

    async fn measure_again(self: Arc<Self>, engine: Weak<dyn Engine>) {
        let mut pause = INTERVAL;
        loop {
            tokio::time::sleep(pause).await;
            let Some(engine) = engine.upgrade() else { return };
            pause = match self.measure(&*engine).await {
                Ok(measured) if measured.round_trip <= MAX_ROUND_TRIP => {
                    self.set(measured.offset_us);
                    INTERVAL
                }
                _ => RETRY,
            };
        }
    }

    async fn measure(&self, engine: &dyn Engine) -> Result<Measurement, StoreError> {
        let sent = self.begun.elapsed();
        let mut rows = engine.read(Statement::new(READ_TIME, [])).await?;
        let round_trip = self.begun.elapsed().saturating_sub(sent);
        let time_us = rows.first_mut().map_or(Ok(0), Row::integer)?;
        Ok(Measurement { offset_us: time_us - micros(sent + round_trip / 2), round_trip })
    }

    fn set(&self, offset_us: i64) {
        let before = self.offset_us.swap(offset_us, Ordering::Relaxed);
        if (offset_us - before).abs() > STEP_US {
            tracing::warn!(by_ms = (offset_us - before) / 1000, "the clock of the database has jumped");
            self.settled_us.store(micros(self.begun.elapsed() + SETTLING), Ordering::Relaxed);
        }
    }

    /// The database's time, in microseconds since 1970.
    pub(crate) fn now_us(&self) -> i64 {
        self.offset_us.load(Ordering::Relaxed) + micros(self.begun.elapsed())
    }

    /// Whether leases can be trusted. False for a while after the database's clock has jumped.
    pub(crate) fn is_settled(&self) -> bool {
        micros(self.begun.elapsed()) >= self.settled_us.load(Ordering::Relaxed)
    }
}

/// This machine's time, in microseconds since 1970.
pub(crate) fn local_us() -> i64 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::engine::{Rows, Value};

    /// Says that it is 1000 seconds after 1970, after a while.
    #[derive(Debug)]
    struct Server(Duration);

    impl Engine for Server {
        fn write(&self, _: Vec<Statement>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
            Box::pin(std::future::pending())
        }

        fn read(&self, _: Statement) -> BoxFuture<'_, Result<Rows, StoreError>> {
            Box::pin(async {
                tokio::time::sleep(self.0).await;
                Ok(vec![Row::new(vec![Value::Integer(1_000_000_000)])])
            })
        }

        fn is_shared(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn half_of_the_round_trip_is_taken_off() {
        let engine: Arc<dyn Engine> = Arc::new(Server(Duration::from_millis(100)));
        let begun = Instant::now();
        let clock = DatabaseClock::follow(&engine).await.unwrap();
        let ahead_us = clock.now_us() - 1_000_000_000;
        let took_us = micros(begun.elapsed());
        assert!((50_000..=took_us - 50_000).contains(&ahead_us), "{ahead_us} of {took_us}");
    }

    #[tokio::test]
    async fn leases_are_not_trusted_after_a_jump() {
        let engine: Arc<dyn Engine> = Arc::new(Server(Duration::ZERO));
        let clock = DatabaseClock::follow(&engine).await.unwrap();
        let offset_us = clock.offset_us.load(Ordering::Relaxed);
        clock.set(offset_us + STEP_US / 2);
        assert!(clock.is_settled());
        clock.set(offset_us + 3600 * STEP_US);
        assert!(!clock.is_settled());
    }
}
