//! `openskill skills`: lists or watches skills.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::Duration;

use openskill_proto::render::skill_status;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{CatalogChange, ChangeKind, ListSkillsRequest, Skill, SkillStatus, WatchSkillsRequest};
use serde_json::Value;

use super::{client, workers};
use crate::args::SkillsArgs;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::listing::{ADDED, ChangePrinter, Column, ListItem, REMOVED, UPDATED, or_dash, print_list};
use crate::settings::Settings;
use crate::terminal::print_err;

/// The maximum time until the gateway has told which files are refused.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The maximum number of refused files that are printed.
const MAX_REFUSED: usize = 5;

impl ListItem for Skill {
    const KIND: &'static str = "skill";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("ID", |it| it.id.clone()),
        Column::optional("VERSION", versions),
        Column::optional("RUNNER", |it| or_dash(&it.runner)),
        Column::wide("TOOLSET", |it| or_dash(&it.toolset)),
        Column::wide("TIMEOUT", timeout),
        Column::wide("TRAITS", |it| or_dash(&traits(it).join(","))),
        Column::optional("WORKERS", |it| it.workers.to_string()),
        Column::new("STATUS", |it| skill_status(it.status()).to_owned()),
        Column::text("DESCRIPTION", description_or_reason),
    ];

    fn value(&self) -> Value {
        openskill_proto::render::skill(self)
    }
}

pub(super) async fn run(args: &SkillsArgs, settings: &Settings) -> Result<(), Failure> {
    let mut client = client::skills(settings).await?;
    if args.list.watch {
        return watch(args, settings, &mut client).await;
    }
    let request = ListSkillsRequest { toolset: args.toolset.clone() };
    let mut skills = client.list_skills(request).await.map_err(client::into_failure(settings))?.into_inner().skills;
    let known = skills.len();
    skills.retain(|skill| args.all || is_available(skill));
    print_list(&skills, args.list.output.format());
    match known - skills.len() {
        0 => {}
        1 => print_err("1 more is unavailable: --all shows it with the reason\n"),
        hidden => print_err(&format!("{hidden} more are unavailable: --all shows them with the reason\n")),
    }
    if args.toolset.is_empty() && (args.all || std::io::stderr().is_terminal()) {
        let files = tokio::time::timeout(ANSWER_WITHIN, refused_files(&settings.for_operators())).await;
        print_err(&files.unwrap_or_default());
    }
    Ok(())
}

/// Renders the files that workers refuse, one per line. Empty if the caller may not see them.
async fn refused_files(settings: &Settings) -> String {
    let Ok(mut admin) = client::admin(settings).await else { return String::new() };
    let workers = workers::list_all(&mut admin, settings).await.unwrap_or_default();
    // Workers usually have the same files.
    let files: BTreeSet<_> = workers.iter().flat_map(workers::refused_files).collect();
    let (count, hidden) = (files.len(), files.len().saturating_sub(MAX_REFUSED));
    let mut lines: String = files.into_iter().take(MAX_REFUSED).map(|it| format!("refused: {it}\n")).collect();
    if hidden > 0 {
        lines.push_str(&format!("{hidden} more of {count} are refused: `openskill describe worker ID` lists them\n"));
    }
    lines
}

/// Prints the list of skills, then each change, until the gateway or the user stops it.
async fn watch(
    args: &SkillsArgs,
    settings: &Settings,
    client: &mut SkillServiceClient<Channel>,
) -> Result<(), Failure> {
    let into_failure = client::into_failure(settings);
    let mut stream = client.watch_skills(WatchSkillsRequest::default()).await.map_err(&into_failure)?.into_inner();
    let mut changes = ChangePrinter::new(args.list.output.format());
    let (mut first, mut is_first) = (Vec::new(), true);
    while let Some(change) = stream.message().await.map_err(&into_failure)? {
        let is_complete = change.snapshot_complete;
        let listed = list_change(change).filter(|(_, skill)| args.toolset.is_empty() || skill.toolset == args.toolset);
        if !is_first {
            changes.print(listed.as_slice());
            continue;
        }
        // A skill that becomes unavailable later is printed even without --all.
        first.extend(listed.filter(|(_, skill)| args.all || is_available(skill)));
        if is_complete {
            changes.print(&first);
            is_first = false;
        }
    }
    Err(Failure::gateway(&settings.base_url, "closed the stream: no further changes will be shown"))
}

fn list_change(change: CatalogChange) -> Option<(&'static str, Skill)> {
    let kind = match change.kind() {
        ChangeKind::Added => ADDED,
        ChangeKind::Updated => UPDATED,
        ChangeKind::Removed => REMOVED,
        ChangeKind::Circuit | ChangeKind::Unspecified => return None,
    };
    Some((kind, change.skill?))
}

fn is_available(skill: &Skill) -> bool {
    skill.status() == SkillStatus::Available
}

/// Formats the version, or the versions that are served side by side.
pub(super) fn versions(skill: &Skill) -> String {
    if skill.versions.is_empty() { skill.version.clone() } else { super::traffic::format_versions(&skill.versions) }
}

/// Returns the description of the skill, or the reason why it is unavailable.
fn description_or_reason(skill: &Skill) -> String {
    let text = if is_available(skill) { &skill.description } else { &skill.status_reason };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats the call timeout from the manifest. Returns a dash if the manifest sets none.
pub(super) fn timeout(skill: &Skill) -> String {
    if skill.timeout_ms == 0 { "-".to_owned() } else { format!("{} ms", skill.timeout_ms) }
}

/// Returns the properties of the skill's calls, as declared in the manifest.
pub(super) fn traits(skill: &Skill) -> Vec<&'static str> {
    let all = [
        (skill.read_only, "read-only"),
        (skill.idempotent, "idempotent"),
        (skill.destructive, "destructive"),
        (skill.repeatable, "repeatable"),
        (skill.untrusted, "untrusted"),
        (skill.needs_approval(), "asks"),
        (skill.session_affinity && !skill.caller_affinity, "session-affinity"),
        (skill.caller_affinity, "caller-affinity"),
    ];
    all.into_iter().filter(|(has_it, _)| *has_it).map(|(_, name)| name).collect()
}
