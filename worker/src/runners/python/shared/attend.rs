//! Starts one interpreter's process and reads its output until it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_sandbox::launch::LaunchError;
use openskill_sandbox::run::RunError;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::interpreter::Wire;
use super::output::{InterpreterEvent, OutputParser};
use super::pool::{Pool, StartingInterpreter};

/// Runs until the interpreter has ended. Stores its process in the slot that the pool owns. If the pool has
/// dropped that slot, the process ends.
pub(super) fn attend(pool: Arc<Pool>, started: StartingInterpreter) -> BoxFuture<'static, ()> {
    attend_to(pool, started).boxed()
}

async fn attend_to(pool: Arc<Pool>, started: StartingInterpreter) {
    let StartingInterpreter { id, answers: stream, wire, launch, kept } = started;
    let stream = launch().and_then(|process| {
        if let Some(kept) = kept.upgrade() {
            *kept.lock() = Some(process);
        }
        Ok(pipe::Receiver::from_owned_fd(stream)?)
    });
    let ended = match stream {
        Ok(stream) => read(&pool, id, stream, &wire).await,
        Err(error) => {
            if openskill_telemetry::log::admits("a shared interpreter was not started") {
                tracing::warn!(%error, "a shared interpreter could not be started");
            }
            Err(RunError::Launch(error))
        }
    };
    if let Err(error) = ended {
        pool.fail_interpreter(id, error);
    }
}

/// Reads answers until the interpreter fails. Returns `Ok` if the pool ended it.
async fn read(pool: &Arc<Pool>, id: u64, mut stream: pipe::Receiver, wire: &Wire) -> Result<(), RunError> {
    let mut answers = OutputParser::default();
    loop {
        while let Some(heard) = answers.next()? {
            let goes_on = match heard {
                InterpreterEvent::Event(line) => deliver(pool, id, &line, wire).await,
                InterpreterEvent::Ended { call, last, output } => pool.finish_call(id, call, last, output),
            };
            if !goes_on {
                return Ok(());
            }
        }
        wire.behind.store(false, Ordering::Release);
        if wire.dropped.load(Ordering::Acquire) && !pool.judge_dropped(id) {
            return Ok(());
        }
        let read = async {
            stream.readable().await?;
            wire.behind.store(true, Ordering::Release);
            stream.read_buf(answers.room()).await
        };
        tokio::select! {
            read = read => match read {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(RunError::Launch(LaunchError::Lost)),
            },
            () = wire.changed.notified() => {
                if !pool.has(id) {
                    return Ok(());
                }
            }
        }
    }
}

/// Forwards one event of the current call. A slow listener slows the script down. Returns whether the interpreter
/// continues.
async fn deliver(pool: &Pool, id: u64, line: &[u8], wire: &Wire) -> bool {
    // Without a call, the event comes from a thread that the script left running.
    let Some(events) = pool.events(id) else { return true };
    let mut delivered = std::pin::pin!(events.line(line));
    loop {
        tokio::select! {
            () = &mut delivered => return true,
            () = wire.changed.notified() => {
                if pool.events(id).is_none() {
                    return pool.has(id);
                }
            }
        }
    }
}
