//! `openskill tools add`, `remove`, `index` and `pins`. They need no gateway.

use std::fmt::Write as _;

use openskill_telemetry::log::text::{lines, one_line};
use openskill_worker::config::{Config, ToolsConfig};
use openskill_worker::operator::{self, IndexedServer, Pinned, ToolsError};
use serde_json::{Value, json};

use crate::args::{AddTools, ListIndex, RemoveTools, ToolsCommand};
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::runtime::block_on;
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{pluralize, print_err, print_out, program};

pub(in crate::commands) fn run(command: &ToolsCommand, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    block_on(async {
        let ran = match command {
            ToolsCommand::Add(args) => add(args, worker_config(settings, raw)?).await,
            ToolsCommand::Remove(args) => remove(args, &tools(settings, raw)?).await,
            ToolsCommand::Index(args) => index(args, &tools(settings, raw)?),
            ToolsCommand::Pins(args) => pins(args, worker_config(settings, raw)?).await,
        };
        ran.map_err(|error| match error {
            ToolsError::Unknown(_) | ToolsError::NotInstalled { .. } => Failure::Usage(error.to_string()),
            ToolsError::System(source) => Failure::system("setting up the sandbox")(source),
            error => Failure::printed(&error),
        })
    })
}

fn worker_config(settings: &Settings, raw: &RawSettings) -> Result<Config, Failure> {
    let mut config = serve::worker::config(settings, raw)?;
    config.packages.progress = |step| print_err(&format!("{step}\n"));
    Ok(config)
}

fn tools(settings: &Settings, raw: &RawSettings) -> Result<ToolsConfig, Failure> {
    let here = std::env::current_dir().map_err(Failure::system("finding the current directory"))?;
    // A root that does not exist yet cannot be canonicalized, and is empty.
    let root = &settings.worker.config.allowed_root;
    let root = root.canonicalize().unwrap_or_else(|_| here.join(root));
    Ok(settings.worker.tools(&here, &root, raw)?)
}

async fn add(args: &AddTools, config: Config) -> Result<(), ToolsError> {
    let folder = config.tools.folder.clone();
    let (record, before) = operator::add(config, &args.id).await?;
    let (tools, place) = (pluralize(record.tools.len(), "tool"), folder.join(&record.id));
    let how = if before { "was already installed" } else { "installed" };
    print_out(&format!("{} {} {how} in {}, with {tools}:\n", record.id, record.version, place.display()));
    record.tools.iter().for_each(|it| print_out(&format!("  {it}\n")));
    print_err(&format!("workers that serve {} offer these tools within seconds\n", folder.display()));
    Ok(())
}

async fn remove(args: &RemoveTools, tools: &ToolsConfig) -> Result<(), ToolsError> {
    let record = operator::remove(tools, &args.id).await?;
    print_out(&format!("removed {} {} with {}\n", record.id, record.version, pluralize(record.tools.len(), "tool")));
    Ok(())
}

fn index(args: &ListIndex, tools: &ToolsConfig) -> Result<(), ToolsError> {
    print_list(&operator::index(tools)?, args.output.format());
    Ok(())
}

async fn pins(args: &AddTools, config: Config) -> Result<(), ToolsError> {
    let pinned = operator::pins(config, &args.id).await?;
    print_out(&block(&pinned));
    for Pinned { tool, description, has_hidden_text, .. } in &pinned {
        let hidden = if *has_hidden_text { "\nIt contains invisible characters, so it would be refused." } else { "" };
        print_err(&format!("\n{}: {}{hidden}\n", one_line(tool), lines(description)));
    }
    let check = "models read these descriptions: review them before you add the pins to your index";
    print_err(&format!("\n{check}; then run `{} tools index` to check it\n", program()));
    Ok(())
}

/// Formats the part of an index entry that pins its tools, as TOML. Strings are written as JSON strings, which
/// TOML accepts.
fn block(pinned: &[Pinned]) -> String {
    let mut text = String::new();
    for Pinned { tool, pin, .. } in pinned {
        let is_bare = !tool.is_empty() && tool.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it));
        let key = if is_bare { tool.clone() } else { json!(tool).to_string() };
        let _ = writeln!(text, "[server.tools.{key}]");
        for (part, digest) in pin {
            let _ = writeln!(text, "{part} = \"{digest}\"");
        }
        text.push('\n');
    }
    text
}

impl ListItem for IndexedServer {
    const KIND: &'static str = "server";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("ID", |it| it.entry.id.clone()),
        Column::new("VERSION", |it| it.entry.version.clone()),
        Column::optional("INSTALLED", |it| or_dash(it.installed.as_ref().map_or("", |it| &it.version))),
        Column::new("TOOLS", |it| {
            if it.entry.tools.is_empty() { "no pins".to_owned() } else { it.entry.tools.len().to_string() }
        }),
        Column::optional("NETWORK", |it| {
            it.entry.network.as_str().map_or_else(|| it.entry.network.to_string(), str::to_owned)
        }),
        Column::wide("PACKAGES", |it| it.entry.requirements.len().to_string()),
        Column::wide("ENVIRONMENT", |it| or_dash(&it.entry.env.join(","))),
        Column::text("DESCRIPTION", |it| it.entry.description.clone()),
    ];

    fn value(&self) -> Value {
        let Self { entry, installed } = self;
        json!({
            "id": entry.id,
            "title": entry.title,
            "version": entry.version,
            "installed_version": installed.as_ref().map(|it| &it.version),
            "installed_by": installed.as_ref().map(|it| &it.by),
            "installed_at": installed.as_ref().map(|it| &it.at),
            "tools": entry.tools.keys().collect::<Vec<_>>(),
            "network": entry.network,
            "packages": entry.requirements.len(),
            "environment": entry.env,
            "description": entry.description,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pins_that_are_printed_are_read_in_an_index() {
        let pin = [("inputSchema".to_owned(), "0".repeat(64)), ("description".to_owned(), "1".repeat(64))];
        let pinned = |tool: &str| Pinned {
            tool: tool.to_owned(),
            description: String::new(),
            pin: pin.clone().into(),
            has_hidden_text: false,
        };
        let head =
            "[[server]]\nid = 'a'\ntitle = 't'\nversion = '1'\ndescription = 'd'\nentry = 'e'\nrequirements = []\n";
        let text = head.to_owned() + &block(&[pinned("git_log"), pinned("list.all \"x\"")]);
        let index: serde_json::Value = toml_edit::de::from_str(&text).unwrap();
        let tools = index["server"][0]["tools"].as_object().unwrap();
        assert_eq!(tools.keys().map(String::as_str).collect::<Vec<_>>(), ["git_log", "list.all \"x\""]);
        assert_eq!(tools["git_log"]["description"].as_str(), Some(pin[1].1.as_str()));
    }
}
