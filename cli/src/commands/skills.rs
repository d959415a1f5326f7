//! `openskill skills`.

use std::process::ExitCode;

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{CatalogChange, ChangeKind, ListSkillsRequest, Skill, SkillStatus, WatchSkillsRequest};
use serde_json::Value;

use super::client;
use crate::args::Skills;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::listing::{Change, Changes, Column, Item, list, or_dash};
use crate::settings::Settings;
use crate::terminal::complain;

impl Item for Skill {
    const KIND: &'static str = "skill";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("ID", |it| it.id.clone()),
        Column::new("VERSION", |it| it.version.clone()),
        Column::new("RUNNER", |it| or_dash(&it.runner)),
        Column::wide("TOOLSET", |it| or_dash(&it.toolset)),
        Column::wide("TIMEOUT", timeout),
        Column::wide("TRAITS", |it| or_dash(&traits(it).join(","))),
        Column::new("WORKERS", |it| it.workers.to_string()),
        Column::new("STATUS", |it| status(it).to_owned()),
        Column::text("DESCRIPTION", about),
    ];

    fn value(&self) -> Value {
        openskill_proto::render::skill(self)
    }
}

pub(super) async fn run(args: &Skills, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut client = client::skills(settings).await?;
    if args.watch {
        return watch(args, settings, &mut client).await;
    }
    let request = ListSkillsRequest { toolset: args.toolset.clone() };
    let mut skills = client.list_skills(request).await.map_err(client::refused(settings))?.into_inner().skills;
    let known = skills.len();
    skills.retain(|skill| args.all || is_available(skill));
    list(&skills, args.output.format());
    match known - skills.len() {
        0 => {}
        1 => complain("1 more is unavailable: --all shows it with the reason\n"),
        hidden => complain(&format!("{hidden} more are unavailable: --all shows them with the reason\n")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the skills there are, then each change, until the gateway or the user ends it.
async fn watch(
    args: &Skills,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<ExitCode, Failure> {
    let refused = client::refused(settings);
    let mut stream = client.watch_skills(WatchSkillsRequest::default()).await.map_err(&refused)?.into_inner();
    let mut changes = Changes::new(args.output.format());
    let (mut first, mut is_first) = (Vec::new(), true);
    while let Some(change) = stream.message().await.map_err(&refused)? {
        let is_complete = change.snapshot_complete;
        let told = told(change).filter(|(_, skill)| args.toolset.is_empty() || skill.toolset == args.toolset);
        if !is_first {
            changes.tell(told.as_slice());
            continue;
        }
        // A skill that becomes unavailable later is news, also without --all.
        first.extend(told.filter(|(_, skill)| args.all || is_available(skill)));
        if is_complete {
            changes.tell(&first);
            is_first = false;
        }
    }
    Err(Failure::Gateway { url: settings.base_url.clone(), reason: "ended: no more changes come".to_owned() })
}

fn told(change: CatalogChange) -> Option<(Change, Skill)> {
    let kind = match change.kind() {
        ChangeKind::Added => Change::Added,
        ChangeKind::Updated => Change::Updated,
        ChangeKind::Removed => Change::Removed,
        ChangeKind::Circuit | ChangeKind::Unspecified => return None,
    };
    Some((kind, change.skill?))
}

fn is_available(skill: &Skill) -> bool {
    skill.status() == SkillStatus::Available
}

pub(super) fn status(skill: &Skill) -> &'static str {
    if is_available(skill) { "available" } else { "unavailable" }
}

/// What it does, or why it can't.
fn about(skill: &Skill) -> String {
    let text = if is_available(skill) { &skill.description } else { &skill.status_reason };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How long a call may take by the manifest.
pub(super) fn timeout(skill: &Skill) -> String {
    if skill.timeout_ms == 0 { "-".to_owned() } else { format!("{} ms", skill.timeout_ms) }
}

/// What an agent may or may not do with it.
pub(super) fn traits(skill: &Skill) -> Vec<&'static str> {
    let all = [
        (skill.read_only, "read-only"),
        (skill.idempotent, "idempotent"),
        (skill.destructive, "destructive"),
        (skill.repeatable, "repeatable"),
        (skill.untrusted, "untrusted"),
        (skill.asks(), "asks"),
        (skill.session_affinity && !skill.caller_affinity, "session-affinity"),
        (skill.caller_affinity, "caller-affinity"),
    ];
    all.into_iter().filter(|(has_it, _)| *has_it).map(|(_, name)| name).collect()
}
