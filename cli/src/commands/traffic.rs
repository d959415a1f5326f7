//! `openskill traffic` and `openskill rollback`: divide the calls of a skill among its versions.

use openskill_proto::render::skill_status;
use openskill_proto::v1::{GetSkillRequest, SetTrafficRequest, SkillStatus, SkillVersion};
use serde_json::Value;

use super::client;
use crate::args::{Format, Output, RollbackArgs, TrafficArgs};
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::settings::Settings;
use crate::terminal::{print_err, program};

impl ListItem for SkillVersion {
    const KIND: &'static str = "version";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("VERSION", |it| it.version.clone()),
        Column::new("CALLS", |it| it.weight.map_or_else(|| "-".to_owned(), |weight| format!("{weight}%"))),
        Column::new("WORKERS", |it| it.workers.to_string()),
        Column::new("STATUS", |it| skill_status(it.status()).to_owned()),
        Column::text("REASON", |it| or_dash(&it.status_reason)),
    ];

    fn value(&self) -> Value {
        openskill_proto::render::version(self)
    }
}

pub(super) async fn run(args: &TrafficArgs, settings: &Settings) -> Result<(), Failure> {
    let skill_id = args.skill_id.clone();
    if args.clear || !args.shares.is_empty() {
        let request = SetTrafficRequest { skill_id, shares: args.shares.clone(), rollback: false };
        return set(request, &args.output, settings).await;
    }
    show(versions(skill_id, settings).await?, args.output.format());
    Ok(())
}

/// Returns the versions of a skill, or else the only one.
async fn versions(skill_id: String, settings: &Settings) -> Result<Vec<SkillVersion>, Failure> {
    let mut client = client::skills(settings).await?;
    let skill =
        client.get_skill(GetSkillRequest { skill_id }).await.map_err(client::into_failure(settings))?.into_inner();
    let only = SkillVersion {
        version: skill.version,
        workers: skill.workers,
        weight: None,
        status: skill.status,
        status_reason: skill.status_reason,
    };
    Ok(if skill.versions.is_empty() { vec![only] } else { skill.versions })
}

pub(super) async fn roll_back(args: &RollbackArgs, settings: &Settings) -> Result<(), Failure> {
    let request = SetTrafficRequest { skill_id: args.skill_id.clone(), shares: Vec::new(), rollback: true };
    set(request, &args.output, settings).await
}

async fn set(request: SetTrafficRequest, output: &Output, settings: &Settings) -> Result<(), Failure> {
    let is_rule = request.rollback || !request.shares.is_empty();
    let skill_id = request.skill_id.clone();
    let operators = settings.for_operators();
    let changed = client::admin(&operators).await?.set_traffic(request).await;
    let changed = changed.map_err(client::into_failure(&operators))?.into_inner();
    let left = match changed.versions {
        // The rule of a skill that is gone can be removed too: it has no version.
        none if none.is_empty() => versions(skill_id.clone(), settings).await.unwrap_or_default(),
        several => several,
    };
    show(left, output.format());
    if is_rule {
        let program = program();
        print_err(&format!("the rule holds for later versions too, until `{program} traffic {skill_id} --clear`\n"));
        if !changed.stored {
            print_err("the gateway loses this rule when it stops: set OPENSKILL_TRAFFIC_FILE to keep it\n");
        }
    }
    Ok(())
}

fn show(versions: Vec<SkillVersion>, format: Format) {
    print_list(&versions, format);
    let has_rule = versions.iter().any(|it| it.weight.is_some());
    let gets_calls = |it: &SkillVersion| it.weight.is_some_and(|weight| weight > 0);
    if has_rule && !versions.iter().any(|it| gets_calls(it) && it.status() == SkillStatus::Available) {
        print_err("no version of the rule can run: calls without a version are refused\n");
    }
}

/// Formats the versions of a skill in one line, with the percentage of calls that each one gets.
pub(super) fn format_versions(versions: &[SkillVersion]) -> String {
    let one = |it: &SkillVersion| {
        let weight = it.weight.map(|weight| format!(" {weight}%")).unwrap_or_default();
        let missing = if it.status() == SkillStatus::Available { "" } else { " (unavailable)" };
        format!("{}{weight}{missing}", it.version)
    };
    versions.iter().map(one).collect::<Vec<_>>().join(", ")
}
