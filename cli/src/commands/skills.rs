//! `openskill skills`.

use std::process::ExitCode;

use openskill_proto::v1::{ListSkillsRequest, Skill, SkillStatus};

use super::client;
use crate::args::Skills;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::table::table;
use crate::terminal::{complain, say, say_value};

/// The maximum width of a description.
const DESCRIPTION: usize = 60;

pub(super) async fn run(args: &Skills, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut client = client::skills(settings).await?;
    let request = ListSkillsRequest { toolset: args.toolset.clone() };
    let mut skills = client.list_skills(request).await.map_err(client::refused(settings))?.into_inner().skills;
    let known = skills.len();
    skills.retain(|skill| args.all || skill.status() == SkillStatus::Available);
    if args.json {
        say_value(&skills.iter().map(openskill_proto::render::skill).collect());
    } else {
        say(&table(["ID", "VERSION", "RUNNER", "WORKERS", "STATUS", "DESCRIPTION"], skills.iter().map(row)));
    }
    match known - skills.len() {
        0 => {}
        1 => complain("1 more is unavailable: --all shows it with the reason\n"),
        hidden => complain(&format!("{hidden} more are unavailable: --all shows them with the reason\n")),
    }
    Ok(ExitCode::SUCCESS)
}

fn row(skill: &Skill) -> [String; 6] {
    let available = skill.status() == SkillStatus::Available;
    let (status, about) =
        if available { ("available", &skill.description) } else { ("unavailable", &skill.status_reason) };
    let line = about.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = match line.char_indices().nth(DESCRIPTION) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    };
    let version = skill.version.clone();
    [skill.id.clone(), version, skill.runner.clone(), skill.workers.to_string(), status.to_owned(), short]
}
