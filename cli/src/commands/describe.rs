//! `openskill describe`: everything that the gateway knows about one skill or one worker.

use openskill_proto::render::skill_status;
use openskill_proto::v1::{
    GetSkillRequest, ListCircuitsRequest, ListTracesRequest, Skill, TraceFilter, TraceSummary, WorkerInfo,
};
use serde_json::Value;
use tonic::{Code, Status};

use super::trace::millis;
use super::{client, skills, traces, workers};
use crate::args::{DescribeCommand, DescribeSkill, DescribeWorker, Format};
use crate::exit::Failure;
use crate::listing::{ListItem as _, or_dash, print_one};
use crate::settings::Settings;
use crate::table::Table;
use crate::terminal::{columns, print_out};

/// The maximum number of a skill's latest calls that are shown.
const CALLS: u32 = 5;

pub(super) async fn run(command: &DescribeCommand, settings: &Settings) -> Result<(), Failure> {
    match command {
        DescribeCommand::Skill(args) => skill(args, settings).await,
        DescribeCommand::Worker(args) => worker(args, &settings.for_operators()).await,
    }
}

async fn skill(args: &DescribeSkill, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::skills(settings).await?;
    let found = client.get_skill(GetSkillRequest { skill_id: args.id.clone() }).await;
    let skill = found.map_err(|status| match status.code() {
        Code::NotFound => {
            let reason = format!("there is no skill '{}': `openskill skills --all` lists all skills", args.id);
            Failure::refused(&settings.base_url, reason)
        }
        _ => client::into_failure(settings)(status),
    })?;
    let skill = skill.into_inner();
    if matches!(args.output.format(), Format::Json | Format::Yaml) {
        print_one(&skill.value(), args.output.format());
        return Ok(());
    }
    print_out(&render_facts(&skill_facts(&skill)));
    print_out(&block("Arguments", &fields(&skill.input_schema_json, "any: the skill has no input schema", room())));
    print_out(&block("Data", &fields(&skill.output_schema_json, "any: the skill has no output schema", room())));
    print_out(&block("Examples", &examples(&skill)));
    let operators = settings.for_operators();
    print_out(&block("Circuit breakers", &circuits(&skill.id, &operators).await?));
    print_out(&block("Latest calls", &latest(&skill.id, &operators).await?));
    Ok(())
}

async fn worker(args: &DescribeWorker, settings: &Settings) -> Result<(), Failure> {
    let mut admin = client::admin(settings).await?;
    let all = workers::list_all(&mut admin, settings).await?;
    // Show all matches: the user may be looking for duplicate worker ids, which are a mistake.
    let found: Vec<_> = all.iter().filter(|it| it.worker_id == args.id).collect();
    if found.is_empty() {
        let reason = format!("there is no worker '{}': `openskill workers` lists them", args.id);
        return Err(Failure::refused(&settings.base_url, reason));
    }
    for worker in found {
        match args.output.format() {
            format @ (Format::Json | Format::Yaml) => print_one(&worker.value(), format),
            Format::Table | Format::Wide => {
                print_out(&render_facts(&worker_facts(worker)));
                let refused: Vec<_> = workers::refused_files(worker).collect();
                print_out(&block("Refused files", &refused.join("\n")));
            }
        }
    }
    Ok(())
}

fn skill_facts(skill: &Skill) -> Vec<(&'static str, String)> {
    vec![
        ("Id", skill.id.clone()),
        ("Version", skill.version.clone()),
        ("Versions", super::traffic::format_versions(&skill.versions)),
        ("Description", or_dash(&skill.description)),
        ("Status", skill_status(skill.status()).to_owned()),
        ("Reason", skill.status_reason.clone()),
        ("Workers", skill.workers.to_string()),
        ("Runner", or_dash(&skill.runner)),
        ("Toolset", or_dash(&skill.toolset)),
        ("Timeout", skills::timeout(skill)),
        ("Traits", or_dash(&skills::traits(skill).join(", "))),
    ]
}

fn worker_facts(worker: &WorkerInfo) -> Vec<(&'static str, String)> {
    vec![
        ("Id", worker.worker_id.clone()),
        ("Endpoint", worker.endpoint.clone()),
        ("Status", workers::status(worker)),
        ("Reason", worker.reason.clone()),
        ("Version", or_dash(&worker.version)),
        ("Calls", format!("{} in flight, at most {} at once", worker.in_flight, worker.capacity)),
        ("Limit", format!("{} calls, including queued calls", worker.limit)),
        ("Skills", format!("{} available", worker.skills)),
    ]
}

/// Renders names and values in two columns, without empty values.
pub(super) fn render_facts(facts: &[(&str, String)]) -> String {
    let shown = facts.iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{:<14}{}\n", format!("{name}:"), value.trim().replace('\n', " "))).collect()
}

/// Renders a heading and its indented text.
fn block(heading: &str, text: &str) -> String {
    let text = if text.is_empty() { "none\n" } else { text };
    let indented = text.lines().map(|line| format!("  {line}\n"));
    format!("{heading}:\n{}", indented.collect::<String>())
}

/// Renders what a schema describes: its properties, or the type of another value than an object.
fn fields(schema: &str, without: &str, room: Option<usize>) -> String {
    if schema.is_empty() {
        return without.to_owned();
    }
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let rows = parameters(&schema, room);
    let is_object = schema["type"] == "object";
    if rows.is_empty() && !is_object { type_name(&schema) } else { rows }
}

/// Renders the arguments of example calls, and the errors of those that fail.
fn examples(skill: &Skill) -> String {
    let failing = skill.failing_examples.iter();
    let failing = failing.map(|it| format!("{} fails with {}", it.input_json, it.code().as_str_name()));
    skill.example_inputs_json.iter().cloned().chain(failing).collect::<Vec<_>>().join("\n")
}

/// Fetches the skill's open and half-open circuit breakers.
async fn circuits(id: &str, settings: &Settings) -> Result<String, Failure> {
    let request = ListCircuitsRequest { skill_id: id.to_owned(), ..ListCircuitsRequest::default() };
    match client::admin(settings).await?.list_circuits(request).await {
        Ok(answer) => {
            let one = |it: &openskill_proto::v1::Circuit| {
                let whose = if it.session_id.is_empty() { "all sessions" } else { &it.session_id };
                format!(
                    "{}{} for {whose}, {} failures, retry {}\n",
                    it.skill_id.split_once('@').map(|(_, version)| format!("{version}: ")).unwrap_or_default(),
                    super::circuits::state(it),
                    it.failures,
                    super::circuits::retry(it)
                )
            };
            let open: String = answer.into_inner().circuits.iter().map(one).collect();
            Ok(if open.is_empty() { "all closed\n".to_owned() } else { open })
        }
        Err(status) => explain_unserved(status, settings),
    }
}

/// Fetches the skill's latest recorded calls.
async fn latest(id: &str, settings: &Settings) -> Result<String, Failure> {
    let filter = TraceFilter { skill_id: id.to_owned(), ..TraceFilter::default() };
    let request = ListTracesRequest { filter: Some(filter), limit: CALLS, cursor: String::new() };
    match client::traces(settings).await?.list_traces(request).await {
        Ok(answer) => {
            let row = |it: &TraceSummary| {
                vec![traces::short_time(it.received_us), it.code.clone(), millis(it.duration_us), it.trace_id.clone()]
            };
            let calls = answer.into_inner().calls;
            let mut table = Table::new(vec!["TIME", "CODE", "DURATION", "TRACE"], None, room()).optional([0]);
            Ok(if calls.is_empty() { String::new() } else { table.rows(calls.iter().map(row)) })
        }
        Err(status) => explain_unserved(status, settings),
    }
}

/// Replaces the error with a line that says why this address does not have the information.
fn explain_unserved(status: Status, settings: &Settings) -> Result<String, Failure> {
    match status.code() {
        Code::Unimplemented => Ok("not served at this address: use the address of AdminService\n".to_owned()),
        Code::FailedPrecondition | Code::PermissionDenied => Ok(format!("{}\n", status.message())),
        _ => Err(client::into_failure(settings)(status)),
    }
}

/// The maximum depth to which nested objects are listed.
const DEPTH: usize = 4;

/// Returns the width for tables in blocks, which are indented by two.
fn room() -> Option<usize> {
    columns(std::io::stdout()).map(|it| it.saturating_sub(2))
}

/// Renders one row for each property. Returns an empty string if the schema has no properties.
fn parameters(schema: &Value, room: Option<usize>) -> String {
    let mut rows = Vec::new();
    properties(schema, "", DEPTH, &mut rows);
    if rows.is_empty() {
        return String::new();
    }
    Table::new(vec!["NAME", "TYPE", "REQUIRED", "DESCRIPTION"], Some(3), room).rows(rows)
}

fn properties(schema: &Value, prefix: &str, depth: usize, rows: &mut Vec<Vec<String>>) {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let is_required = if required.iter().any(|it| it == name) { "yes" } else { "no" };
        rows.push(vec![path.clone(), type_name(property), is_required.to_owned(), describe_property(property)]);
        if depth > 0 {
            properties(property, &format!("{path}."), depth - 1, rows);
            properties(&property["items"], &format!("{path}[]."), depth - 1, rows);
        }
    }
}

/// Formats the type, such as `string` or `array of number`.
fn type_name(schema: &Value) -> String {
    let own = match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ if schema.get("enum").is_some() || schema.get("const").is_some() => "one of".to_owned(),
        _ => "any".to_owned(),
    };
    match (own.as_str(), &schema["items"]["type"]) {
        ("array", Value::String(items)) => format!("array of {items}"),
        _ => own,
    }
}

/// Formats the description, the accepted values and the default.
fn describe_property(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let list = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
    let choices = schema["enum"].as_array().map(|values| format!("one of {}", list(values)));
    let default = schema.get("default").map(|value| format!("default {value}"));
    let parts = [Some(text).filter(|it| !it.is_empty()), choices, default];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::{ErrorCode, FailingExample};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_schema_is_not_an_empty_one() {
        assert_eq!(fields("", "no schema", None), "no schema");
        assert_eq!(fields(r#"{"type": "object"}"#, "no schema", None), "");
        assert_eq!(fields(r#"{"type": "array", "items": {"type": "string"}}"#, "no schema", None), "array of string");
    }

    #[test]
    fn examples_that_fail_say_how() {
        let failing = FailingExample { input_json: "{}".to_owned(), code: ErrorCode::InvalidArgument.into() };
        let skill = Skill { failing_examples: vec![failing], ..Skill::default() };
        assert_eq!(examples(&skill), "{} fails with INVALID_ARGUMENT");
    }

    #[test]
    fn every_property_is_a_row_and_nested_ones_have_a_path() {
        let schema = json!({
            "required": ["numbers"],
            "properties": {
                "numbers": {"type": "array", "items": {"type": "number"}, "description": "The\n  numbers"},
                "how": {"enum": ["fast", 2], "default": "fast"},
                "rows": {"type": ["array", "null"], "items": {"properties": {"id": {"type": "integer"}}}},
            },
        });
        let expected = "\
NAME       TYPE             REQUIRED  DESCRIPTION
numbers    array of number  yes       The numbers
how        one of           no        one of \"fast\", 2; default \"fast\"
rows       array or null    no
rows[].id  integer          no
";
        assert_eq!(parameters(&schema, None), expected);
        assert_eq!(parameters(&json!({"type": "object"}), None), "");
    }
}
