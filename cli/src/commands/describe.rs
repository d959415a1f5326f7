//! `openskill describe`: everything that the gateway knows about one skill or one worker.

use std::process::ExitCode;

use openskill_proto::v1::{
    GetSkillRequest, ListCircuitsRequest, ListTracesRequest, Skill, TraceFilter, TraceSummary, WorkerInfo,
};
use serde_json::Value;
use tonic::{Code, Status};

use self::parameters::parameters;
use super::trace::millis;
use super::{client, skills, traces, workers};
use crate::args::{DescribeArgs, DescribeCommand, DescribeSkill, DescribeWorker, Format};
use crate::exit::Failure;
use crate::listing::{ListItem as _, or_dash, print_one};
use crate::settings::Settings;
use crate::table::Table;
use crate::terminal::{columns, print_out};

mod parameters;

/// The maximum number of a skill's latest calls that are shown.
const CALLS: u32 = 5;

pub(super) async fn run(args: &DescribeArgs, settings: &Settings) -> Result<ExitCode, Failure> {
    match &args.what {
        DescribeCommand::Skill(args) => skill(args, settings).await?,
        DescribeCommand::Worker(args) => worker(args, settings).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn skill(args: &DescribeSkill, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::skills(settings).await?;
    let skill = client.get_skill(GetSkillRequest { skill_id: args.id.clone() }).await.map_err(|status| {
        let hint = "`openskill skills --all` lists all skills";
        not_found(&status, settings, &format!("there is no skill '{}': {hint}", args.id))
    })?;
    let skill = skill.into_inner();
    if matches!(args.output.format(), Format::Json | Format::Yaml) {
        print_one(&skill.value(), args.output.format());
        return Ok(());
    }
    print_out(&render_facts(&skill_facts(&skill)));
    print_out(&block("Arguments", &parameters(&schema(&skill.input_schema_json), columns())));
    print_out(&block("Data", &parameters(&schema(&skill.output_schema_json), columns())));
    print_out(&block("Examples", &lines(&skill.example_inputs_json)));
    print_out(&block("Circuit breakers", &circuits(&args.id, settings).await?));
    print_out(&block("Latest calls", &latest(&args.id, settings).await?));
    Ok(())
}

async fn worker(args: &DescribeWorker, settings: &Settings) -> Result<(), Failure> {
    let mut admin = client::admin(settings).await?;
    let all = workers::list_all(&mut admin, settings).await?;
    // Show all matches: the user may be looking for duplicate worker ids, which are a mistake.
    let found: Vec<_> = all.iter().filter(|it| it.worker_id == args.id).collect();
    if found.is_empty() {
        let reason = format!("there is no worker '{}': `openskill workers` lists them", args.id);
        return Err(Failure::Refused { url: settings.base_url.clone(), reason });
    }
    for worker in found {
        match args.output.format() {
            format @ (Format::Json | Format::Yaml) => print_one(&worker.value(), format),
            Format::Table | Format::Wide => print_out(&render_facts(&worker_facts(worker))),
        }
    }
    Ok(())
}

fn not_found(status: &Status, settings: &Settings, reason: &str) -> Failure {
    match status.code() {
        Code::NotFound => Failure::Refused { url: settings.base_url.clone(), reason: reason.to_owned() },
        _ => client::into_failure(settings)(status.clone()),
    }
}

fn skill_facts(skill: &Skill) -> Vec<(&'static str, String)> {
    vec![
        ("Id", skill.id.clone()),
        ("Version", skill.version.clone()),
        ("Description", or_dash(&skill.description)),
        ("Status", skills::status(skill).to_owned()),
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
fn render_facts(facts: &[(&str, String)]) -> String {
    let shown = facts.iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{:<14}{}\n", format!("{name}:"), value.trim().replace('\n', " "))).collect()
}

/// Renders a heading and its indented text.
fn block(heading: &str, text: &str) -> String {
    let text = if text.is_empty() { "none\n" } else { text };
    let indented = text.lines().map(|line| format!("  {line}\n"));
    format!("{heading}:\n{}", indented.collect::<String>())
}

fn schema(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text}\n")).collect()
}

/// Fetches the skill's open and half-open circuit breakers.
async fn circuits(id: &str, settings: &Settings) -> Result<String, Failure> {
    let request = ListCircuitsRequest { skill_id: id.to_owned(), ..ListCircuitsRequest::default() };
    match client::admin(settings).await?.list_circuits(request).await {
        Ok(answer) => {
            let one = |it: &openskill_proto::v1::Circuit| {
                let whose = if it.session_id.is_empty() { "all sessions" } else { &it.session_id };
                format!(
                    "{} for {whose}, {} failures, retry {}\n",
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
            let mut table = Table::new(vec!["TIME", "CODE", "DURATION", "TRACE"], None, None);
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
