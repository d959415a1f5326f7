//! `openskill operations`: lists, shows, watches, answers, cancels, repeats and removes operations.

use openskill_proto::longrunning::{CancelOperationRequest, DeleteOperationRequest, ListOperationsRequest, Operation};
use openskill_proto::render::{operation_metadata, operation_result, operation_state};
use openskill_proto::timestamp::Timestamp;
use openskill_proto::v1::{
    InputAction, InputRequired, InputResponse, OperationEvent, OperationMetadata, OperationState,
    RetryOperationRequest, skill_result,
};
use openskill_telemetry::log::text::one_line;
use serde_json::Value;

use self::events::EventStream;
use self::fetch::fetch;
use super::client;
use super::describe::render_facts;
use super::input::json_or_file;
use super::invoke::{ResultOutput, ResultPart, print_result};
use super::traces::short_time;
use crate::args::{
    AnswerOperation, Format, ListOperations, OperationFilter, OperationsCommand, SelectedOperations, ShowOperation,
    WatchOperation,
};
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::pretty::pretty;
use crate::settings::Settings;
use crate::terminal::{print_err, print_json, print_out};
use crate::yaml::yaml;

mod artifact;
pub(super) mod events;
pub(super) mod fetch;

/// How the names of operations begin.
const PREFIX: &str = "operations/";

/// The maximum number of operations in a page.
const MAX_PAGE_SIZE: usize = 1000;

/// The maximum number of operations that a command with a filter changes.
const MAX_SELECTED: usize = 10_000;

/// An operation in a list.
struct OperationRow {
    operation: Operation,
    metadata: OperationMetadata,
    /// The time since it was stored.
    age_us: u64,
}

impl OperationRow {
    fn new(operation: Operation, now: Timestamp) -> Self {
        let metadata = operation_metadata(&operation).unwrap_or_default();
        let age_us = metadata.create_time.map_or(0, |it| now.0.saturating_sub(Timestamp::from(it).0));
        Self { operation, metadata, age_us }
    }
}

impl ListItem for OperationRow {
    const KIND: &'static str = "operation";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("NAME", |it| it.operation.name.clone()),
        Column::text("SKILL", |it| it.metadata.skill_id.clone()),
        Column::new("STATE", |it| operation_state(&it.metadata)),
        Column::new("AGE", |it| age(it.age_us)),
        Column::optional("RUNS", |it| it.metadata.runs.to_string()),
        Column::wide("START AT", |it| or_dash(&time(it.metadata.start_at))),
        Column::wide("ENDED", |it| or_dash(&time(it.metadata.end_time))),
        Column::wide("PRINCIPAL", |it| or_dash(&it.metadata.principal)),
        Column::wide("SESSION", |it| or_dash(&it.metadata.session_id)),
        Column::wide("TRACE", |it| it.metadata.trace_id.clone()),
    ];

    fn value(&self) -> Value {
        serde_json::from_str(&openskill_proto::render::operation(&self.operation)).unwrap_or_default()
    }
}

pub(super) async fn run(command: &OperationsCommand, settings: &Settings) -> Result<(), Failure> {
    match command {
        OperationsCommand::List(args) => list(args, settings).await,
        OperationsCommand::Get(args) => get(args, settings).await,
        OperationsCommand::Watch(args) => watch(args, settings).await,
        OperationsCommand::Answer(args) => answer(args, settings).await,
        OperationsCommand::Cancel(args) => for_each(args, settings, async |it| cancel(&it, settings).await).await,
        OperationsCommand::Retry(args) => for_each(args, settings, async |it| retry(it, settings).await).await,
        OperationsCommand::Delete(args) => for_each(args, settings, async |it| delete(&it, settings).await).await,
    }
}

/// Returns the name of an operation, of which the user may have left out the beginning.
fn full_name(given: &str) -> String {
    if given.starts_with(PREFIX) { given.to_owned() } else { format!("{PREFIX}{given}") }
}

async fn list(args: &ListOperations, settings: &Settings) -> Result<(), Failure> {
    let (operations, has_more) = read(&args.filter, args.limit as usize, settings).await?;
    let now = Timestamp::now();
    let rows: Vec<_> = operations.into_iter().map(|it| OperationRow::new(it, now)).collect();
    print_list(&rows, args.output.format());
    if has_more {
        print_err("more operations are available: filter by --state or --skill, or set --limit\n");
    }
    Ok(())
}

/// Reads at most `limit` operations, page by page. Also returns whether there are more.
async fn read(filter: &OperationFilter, limit: usize, settings: &Settings) -> Result<(Vec<Operation>, bool), Failure> {
    let mut client = client::operations(settings).await?;
    let filter = expression(filter);
    let (mut operations, mut page_token) = (Vec::new(), String::new());
    loop {
        let page_size = (limit - operations.len()).min(MAX_PAGE_SIZE) as i32;
        let request =
            ListOperationsRequest { filter: filter.clone(), page_size, page_token, ..ListOperationsRequest::default() };
        let page = client.list_operations(request).await.map_err(client::into_failure(settings))?.into_inner();
        let is_empty = page.operations.is_empty();
        operations.extend(page.operations);
        page_token = page.next_page_token;
        if page_token.is_empty() || is_empty || operations.len() >= limit {
            break;
        }
    }
    operations.truncate(limit);
    Ok((operations, !page_token.is_empty()))
}

fn expression(filter: &OperationFilter) -> String {
    let state = filter.state.as_ref().map(|it| format!("state = {it}"));
    let skill = filter.skill.as_ref().map(|it| format!("skill_id = {it}"));
    state.into_iter().chain(skill).collect::<Vec<_>>().join(" AND ")
}

/// Does something with each selected operation. One that fails does not keep it from the others.
async fn for_each(
    selected: &SelectedOperations,
    settings: &Settings,
    act: impl AsyncFn(String) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let names: Vec<_> = if selected.names.is_empty() {
        let (operations, has_more) = read(&selected.filter, MAX_SELECTED, settings).await?;
        if has_more {
            print_err(&format!("more than {MAX_SELECTED} operations match: repeat this for the others\n"));
        }
        operations.into_iter().map(|it| it.name).collect()
    } else {
        selected.names.iter().map(|it| full_name(it)).collect()
    };
    let mut last = Ok(());
    for name in names {
        match act(name.clone()).await {
            Err(Failure::Refused(reason)) if selected.names.len() != 1 => {
                print_err(&format!("{}: {reason}\n", one_line(&name)));
                last = Err(Failure::Reported);
            }
            ended => ended?,
        }
    }
    last
}

async fn get(args: &ShowOperation, settings: &Settings) -> Result<(), Failure> {
    if let Some(number) = args.artifact {
        return artifact::write(full_name(&args.name), number, settings).await;
    }
    let operation = fetch(&full_name(&args.name), settings).await?;
    if matches!(args.output.format(), Format::Json | Format::Yaml) {
        print_operation(operation, args.output.format());
        return Ok(());
    }
    print_out(&render_facts(&facts(&operation)));
    print_out(&questions(&operation));
    if let Some(skill_result::Output::DataJson(data)) = operation_result(&operation).and_then(|it| it.output) {
        print_out("Data:\n");
        print_json(&pretty(&data));
    }
    Ok(())
}

/// Prints one operation. JSON keeps the notation of the numbers in its result.
pub(super) fn print_operation(operation: Operation, format: Format) {
    match format {
        Format::Json => print_json(&pretty(&openskill_proto::render::operation(&operation))),
        Format::Yaml => print_out(&yaml(&OperationRow::new(operation, Timestamp::now()).value())),
        Format::Table | Format::Wide => print_list(&[OperationRow::new(operation, Timestamp::now())], format),
    }
}

fn facts(operation: &Operation) -> Vec<(&'static str, String)> {
    let metadata = operation_metadata(operation).unwrap_or_default();
    let error = operation_result(operation).and_then(|it| it.error);
    let is_cancelling = metadata.cancel_requested && !operation.done;
    let state = operation_state(&metadata);
    vec![
        ("Name", operation.name.clone()),
        ("Skill", metadata.skill_id),
        ("State", if is_cancelling { format!("{state}, cancel requested") } else { state }),
        ("Waits because", metadata.reason),
        ("Webhook", metadata.webhook),
        ("Runs", metadata.runs.to_string()),
        ("Principal", metadata.principal),
        ("Session", metadata.session_id),
        ("Trace", metadata.trace_id),
        ("Stored", time(metadata.create_time)),
        ("Start at", time(metadata.start_at)),
        ("Started", time(metadata.start_time)),
        ("Ended", time(metadata.end_time)),
        ("Kept until", time(metadata.expire_time)),
        ("Error", error.map(|it| format!("{}: {}", it.code().as_str_name(), it.message)).unwrap_or_default()),
    ]
}

/// Renders the open questions of an operation, each with its id and the schema of its answer.
fn questions(operation: &Operation) -> String {
    let asked = operation_metadata(operation).unwrap_or_default().questions;
    let render = |it: &InputRequired| {
        let schema = Some(&it.schema_json).filter(|it| !it.is_empty()).map(|it| format!("\n  schema {}", one_line(it)));
        format!("  {} {}{}\n", it.request_id, one_line(&it.message), schema.unwrap_or_default())
    };
    let rows: String = asked.iter().map(render).collect();
    if rows.is_empty() { rows } else { format!("Questions:\n{rows}") }
}

async fn answer(args: &AnswerOperation, settings: &Settings) -> Result<(), Failure> {
    let operation = fetch(&full_name(&args.name), settings).await?;
    let asked = operation_metadata(&operation).unwrap_or_default().questions;
    let request_id = match (&args.question, asked.as_slice()) {
        (Some(id), _) => id.clone(),
        (None, [question]) => question.request_id.clone(),
        (None, []) => return Err(Failure::printed(&"the operation has no open question")),
        (None, _) => return Err(Failure::Usage("several questions are open: choose one with --question".to_owned())),
    };
    let (action, content_json) = match args.answer.as_str() {
        "decline" => (InputAction::Decline, String::new()),
        json => (InputAction::Accept, json_or_file(json)?),
    };
    let response = InputResponse { request_id, action: action.into(), content_json };
    let mut client = client::skills(settings).await?;
    client.answer_input(response).await.map_err(client::into_failure(settings))?;
    Ok(())
}

async fn watch(args: &WatchOperation, settings: &Settings) -> Result<(), Failure> {
    let mut skills = client::skills(settings).await?;
    let name = full_name(&args.name);
    let show = |event: &OperationEvent| print_json(&openskill_proto::render::operation_event_line(event));
    let result = EventStream::new(&name, args.after, settings).result(show).await?;
    let output = ResultOutput { part: ResultPart::Nothing, artifacts: args.artifacts.as_deref(), has_key: false };
    print_result(&result, &output, settings, &mut skills).await
}

async fn cancel(name: &str, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::operations(settings).await?;
    let request = CancelOperationRequest { name: name.to_owned() };
    client.cancel_operation(request).await.map_err(client::into_failure(settings))?;
    let metadata = operation_metadata(&fetch(name, settings).await?).unwrap_or_default();
    let (name, state) = (one_line(name), metadata.state());
    print_out(&match state {
        OperationState::Cancelled => format!("cancelled {name}\n"),
        OperationState::Succeeded | OperationState::Failed => {
            format!("{name} had already {}\n", operation_state(&metadata))
        }
        _ => format!("cancelling {name}: it ends once its processes have ended\n"),
    });
    Ok(())
}

async fn retry(name: String, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::operation_service(settings).await?;
    let request = RetryOperationRequest { name };
    let operation = client.retry_operation(request).await.map_err(client::into_failure(settings))?.into_inner();
    print_out(&format!("{}\n", operation.name));
    Ok(())
}

async fn delete(name: &str, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::operations(settings).await?;
    let request = DeleteOperationRequest { name: name.to_owned() };
    client.delete_operation(request).await.map_err(client::into_failure(settings))?;
    print_out(&format!("deleted {}\n", one_line(name)));
    Ok(())
}

/// Formats a time. Returns an empty string if it is absent.
fn time(time: Option<impl Into<Timestamp>>) -> String {
    time.map(|it| short_time(it.into().0)).unwrap_or_default()
}

/// Formats an age in its largest unit, such as `3m`.
fn age(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let ages = [0, 59, 60, 3599, 3600, 86_399, 86_400 * 3].map(|seconds| age(seconds * 1_000_000));
        assert_eq!(ages, ["0s", "59s", "1m", "59m", "1h", "23h", "3d"]);
    }

    #[test]
    fn a_name_may_be_given_without_its_beginning() {
        assert_eq!(["a1", "operations/a1"].map(full_name), ["operations/a1", "operations/a1"]);
    }
}
