//! `openskill new`: creates a skill from a template: manifest, program and test.
//!
//! Where possible, the result passes `openskill check` as it is. Existing files are never overwritten.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::args::{New, SkillType};
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::say;

/// A file to write. `path` is relative to the skill directory.
struct File {
    path: String,
    text: String,
    executable: bool,
}

pub(super) fn run(args: &New, settings: &Settings) -> Result<ExitCode, Failure> {
    let id = &args.id;
    if !openskill_worker::manifest::valid_id(id) {
        let rule = openskill_worker::manifest::ID_RULE;
        return Err(Failure::Usage(format!("'{id}' is not a valid skill id: {rule}")));
    }
    let folder = settings.skill_dirs.first().map_or_else(|| PathBuf::from("."), Clone::clone);
    if args.skills.skills_dir.is_none() && !folder.is_dir() {
        let shown = folder.display();
        let hint = "change to the project's directory, or set another one with --skills-dir";
        return Err(Failure::Usage(format!("the skill directory '{shown}' does not exist: {hint}")));
    }
    let files = files(args.kind, id);
    for file in &files {
        let path = folder.join(&file.path);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!("{} already exists; nothing was written", path.display())));
        }
    }
    for file in &files {
        write(&folder.join(&file.path), file)?;
        say(&format!("wrote {}\n", folder.join(&file.path).display()));
    }
    say(&next(args.kind, id, &folder));
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, file: &File) -> Result<(), Failure> {
    let failed = |source: std::io::Error| Failure::System { what: format!("writing {}", path.display()), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mode = if file.executable { 0o755 } else { 0o644 };
    let mut options = OpenOptions::new();
    // A file created since the check above is not overwritten either.
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let mut opened = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::Usage(format!("{} already exists", path.display())),
        _ => failed(error),
    })?;
    opened.write_all(file.text.as_bytes()).map_err(failed)
}

fn files(kind: SkillType, id: &str) -> Vec<File> {
    let fill = |template: &str| template.replace("@ID@", id);
    let file = |path: String, template: &str, executable| File { path, text: fill(template), executable };
    let manifest = |template| file(format!("{id}.yaml"), template, false);
    // In a directory of its own: a script beside manifests would be loaded as a skill.
    let test = |template| file(format!("tests/test_{id}.py"), template, false);
    match kind {
        SkillType::Python => vec![
            manifest(include_str!("new/python.yaml")),
            file(format!("{id}.py"), include_str!("new/python.py"), false),
            test(include_str!("new/test_python.py")),
        ],
        SkillType::Exec => vec![
            manifest(include_str!("new/exec.yaml")),
            file(format!("{id}.sh"), include_str!("new/exec.sh"), true),
            test(include_str!("new/test_exec.py")),
        ],
        SkillType::Http => vec![manifest(include_str!("new/http.yaml"))],
        SkillType::Docker => vec![manifest(include_str!("new/docker.yaml"))],
        SkillType::McpStdio => vec![manifest(include_str!("new/mcp_stdio.yaml"))],
        SkillType::McpHttp => vec![manifest(include_str!("new/mcp_http.yaml"))],
        SkillType::Inproc => vec![manifest(include_str!("new/inproc.yaml"))],
    }
}

fn next(kind: SkillType, id: &str, folder: &Path) -> String {
    let shown = folder.display();
    let edit = |what: &str| format!("  edit {shown}/{id}.yaml: {what}\n");
    let (first, call) = match kind {
        SkillType::Python | SkillType::Exec => (format!("  python3 {shown}/tests/test_{id}.py\n"), "text=hello"),
        SkillType::Inproc => (String::new(), "text=hello"),
        SkillType::Http => {
            let what = "set its URL; it needs EXAMPLE_TOKEN in the environment; its example is its test";
            (edit(what), "city=Paris")
        }
        SkillType::Docker => (edit("set its image; its example is its test"), "text=hello"),
        SkillType::McpStdio => (edit("set the program of your server"), ""),
        SkillType::McpHttp => (edit("set the URL of your server; it needs EXAMPLE_TOKEN in the environment"), ""),
    };
    let call = match call {
        "" => format!("  openskill pin {id} --skills-dir {shown}\n  openskill skills --toolset {id}\n"),
        arguments => format!("  openskill invoke {id} {arguments}\n"),
    };
    format!("\nNext:\n{first}  openskill check {id} --skills-dir {shown}\n{call}")
}
