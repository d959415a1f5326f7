//! Logs panics. A panic message may contain text from callers and skills: it is escaped and redacted like any
//! other line, and logged only at level DEBUG.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::thread;

use super::lines;

const TARGET: &str = "openskill::panic";

/// Installs the panic hook of this process.
pub(super) fn log() {
    std::panic::set_hook(Box::new(log_panic));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let current = thread::current();
    let thread = current.name().unwrap_or("unnamed");
    // The log thread cannot log its own panic: it would wait for itself.
    if thread == lines::THREAD {
        return;
    }
    let message = panic.payload_as_str().unwrap_or_default();
    let location = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let bytes = message.len();
    tracing::error!(target: TARGET, thread, location, error.message_bytes = bytes, backtrace, "a thread panicked");
    tracing::debug!(target: TARGET, thread, error.message = message, "panic message");
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::telemetry::tests::Log;

    #[test]
    fn a_panic_is_two_log_lines_and_its_message_is_in_the_second() {
        let log = Log::default();
        let writer = log.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let before = std::panic::take_hook();
        super::log();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let said = String::from("password=hunter2");
            std::panic::catch_unwind(|| panic!("{said}")).unwrap_err();
        });
        std::panic::set_hook(before);
        let text = log.text();
        let lines: Vec<_> = text.lines().filter(|line| line.contains(TARGET)).collect();
        let [first, second] = &lines[..] else { panic!("{text}") };
        assert!(
            first.contains("ERROR") && first.contains("panics.rs:") && first.contains("a thread panicked"),
            "{first}"
        );
        assert!(first.contains("error.message_bytes=16") && !first.contains("hunter2"), "{first}");
        assert!(second.contains("DEBUG") && second.contains("password=hunter2"), "{second}");
    }
}
