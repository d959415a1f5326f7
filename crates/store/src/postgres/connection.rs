//! A task with one connection, which it opens when there is work, and again after it broke.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::failure::Failure;
use super::session::DatabaseSession;
use super::settings::Settings;
use crate::engine::{Rows, Statement, StoreError};

/// The pauses between attempts to connect grow from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How often a transaction runs that collides with others.
const TRIES: u32 = 6;

/// A transaction on its way to a connection.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) statements: Vec<Statement>,
    /// Whether it changes nothing.
    pub(super) is_read: bool,
    /// It must have begun by then.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<Vec<Rows>, StoreError>>,
}

/// A connection that is open, or will be.
#[derive(Debug)]
pub(super) struct Connection {
    settings: Arc<Settings>,
    session: Option<DatabaseSession>,
    /// Why a job can't begin.
    reason: String,
    /// When to try again.
    next_attempt: Instant,
    pause: Duration,
}

impl Connection {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        let reason = busy(&settings);
        Self { settings, session: None, reason, next_attempt: Instant::now(), pause: FIRST_PAUSE }
    }

    /// Runs jobs until nobody can send any.
    pub(super) async fn serve(mut self, jobs: Arc<Mutex<mpsc::Receiver<Job>>>) {
        loop {
            let next = jobs.lock().await.recv().await;
            let Some(Job { statements, is_read, deadline, reply }) = next else { return };
            let outcome = self.run(&statements, is_read, deadline).await;
            // Fails if nobody waits for the outcome.
            let _ = reply.send(outcome);
        }
    }

    async fn run(
        &mut self,
        statements: &[Statement],
        is_read: bool,
        deadline: Instant,
    ) -> Result<Vec<Rows>, StoreError> {
        let mut tries = 0;
        loop {
            self.open(deadline).await?;
            let Some(session) = &mut self.session else { continue };
            match session.run(statements, is_read).await {
                Ok(rows) => return Ok(rows),
                Err(Failure::Collision(error)) => {
                    tries += 1;
                    if tries == TRIES {
                        return Err(error);
                    }
                    sleep(Duration::from_millis(rand::random::<u64>() % (10 << tries))).await;
                }
                Err(Failure::Refused(error)) => {
                    // Another server may accept it: this one may not be the primary any more.
                    self.session = None;
                    return Err(error);
                }
                Err(Failure::Lost(reason)) => self.close(reason),
                Err(Failure::Unknown(reason)) => {
                    self.close(reason.clone());
                    return Err(StoreError::Unknown(reason));
                }
            }
        }
    }

    /// Opens the connection if it is not open, until the deadline.
    pub(super) async fn open(&mut self, deadline: Instant) -> Result<(), StoreError> {
        while Instant::now() < deadline {
            if self.session.as_ref().is_some_and(|it| !it.is_closed()) {
                return Ok(());
            }
            self.session = None;
            sleep_until(self.next_attempt.min(deadline)).await;
            match timeout_at(deadline, DatabaseSession::open(&self.settings)).await {
                Ok(Ok(session)) => {
                    self.session = Some(session);
                    self.reason = busy(&self.settings);
                    self.pause = FIRST_PAUSE;
                    return Ok(());
                }
                Ok(Err(StoreError::Unavailable(reason))) => self.close(reason),
                Ok(Err(error)) => return Err(error),
                Err(_) if self.pause == FIRST_PAUSE => {
                    self.close(format!("{}: it does not answer in time", self.settings.name));
                }
                // The attempt before it said more.
                Err(_) => {}
            }
        }
        Err(StoreError::Unavailable(self.reason.clone()))
    }

    fn close(&mut self, reason: String) {
        if self.session.take().is_some() || self.pause == FIRST_PAUSE {
            tracing::warn!(reason, "there is no connection to PostgreSQL");
        }
        self.reason = reason;
        self.next_attempt = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }
}

fn busy(settings: &Settings) -> String {
    format!("{}: its connections were busy for too long", settings.name)
}
