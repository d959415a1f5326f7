//! Log lines as JSON, formatted by `tracing-subscriber`, with the same characters escaped as in the text format.

use std::fmt;

use openskill_log::text;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent};
use tracing_subscriber::registry::LookupSpan;

/// A JSON formatter whose output is safe to show.
#[derive(Debug)]
pub(super) struct Escaped<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Escaped<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut formatted = String::with_capacity(512);
        self.0.format_event(context, Writer::new(&mut formatted), event)?;
        line.write_str(&text::json(&formatted))
    }
}
