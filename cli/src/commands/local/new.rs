//! `openskill new`: creates a skill from a template: manifest, program and test.
//!
//! Where possible, the new skill passes `openskill check` without edits. Existing files are never overwritten.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::args::{NewArgs, SkillType};
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::print_out;

pub(super) fn run(args: &NewArgs, settings: &Settings) -> Result<(), Failure> {
    let id = &args.id;
    if !openskill_worker::manifest::valid_id(id) {
        let rule = openskill_worker::manifest::ID_RULE;
        return Err(Failure::Usage(format!("'{id}' is not a valid skill id: {rule}")));
    }
    let folder = settings.worker.config.skill_dirs.first().map_or_else(|| PathBuf::from("."), Clone::clone);
    if args.skills.skills_dir.is_none() && !folder.is_dir() {
        let shown = folder.display();
        let hint = "change to the project's directory, make a project here with `openskill init`, or set another directory with \
                    --skills-dir";
        return Err(Failure::Usage(format!("the skill directory '{shown}' does not exist: {hint}")));
    }
    write_all(&folder, &files(args.kind, id))?;
    let flag =
        args.skills.skills_dir.as_ref().map_or_else(String::new, |_| format!(" --skills-dir {}", folder.display()));
    print_out(&next(args.kind, id, &folder, &flag));
    Ok(())
}

/// Returns the files of a new skill, relative to the skill directory.
pub(super) fn files(kind: SkillType, id: &str) -> Vec<File> {
    let fill = |template: &str| template.replace("@ID@", id);
    let file = |path: String, template: &str, executable| File { path, text: fill(template), executable };
    let manifest = |template| file(format!("{id}.yaml"), template, false);
    // Tests go to a separate directory: a script next to manifests would be loaded as a skill.
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

/// Suggests the next steps. `flag` is the flag that makes other commands read the same directory.
fn next(kind: SkillType, id: &str, folder: &Path, flag: &str) -> String {
    let shown = folder.display();
    let edit = |what: &str| format!("  edit {shown}/{id}.yaml: {what}\n");
    let (first, call) = match kind {
        SkillType::Python | SkillType::Exec => (format!("  python3 {shown}/tests/test_{id}.py\n"), "text=hello"),
        SkillType::Inproc => (String::new(), "text=hello"),
        SkillType::Http => {
            let what = "set the URL and export EXAMPLE_TOKEN; the example is also the test";
            (edit(what), "city=Paris")
        }
        SkillType::Docker => (edit("set the image; the example is also the test"), "text=hello"),
        SkillType::McpStdio => (edit("set your server's program"), ""),
        SkillType::McpHttp => (edit("set your server's URL and export EXAMPLE_TOKEN"), ""),
    };
    let call = match call {
        "" => format!("  openskill pin {id}{flag}\n  openskill skills --toolset {id}\n"),
        arguments => format!("  openskill invoke {id} {arguments}\n"),
    };
    format!("\nNext:\n{first}  openskill check {id}{flag}\n{call}")
}

/// A file to write. `path` is relative to the target directory.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) executable: bool,
}

/// Writes files below `folder` and prints their names. If any of them exists, fails before writing anything.
pub(super) fn write_all(folder: &Path, files: &[File]) -> Result<(), Failure> {
    for file in files {
        let path = folder.join(&file.path);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!("{} already exists; nothing was written", path.display())));
        }
    }
    for file in files {
        write(&folder.join(&file.path), file)?;
        print_out(&format!("wrote {}\n", folder.join(&file.path).display()));
    }
    Ok(())
}

fn write(path: &Path, file: &File) -> Result<(), Failure> {
    let failed = |source: std::io::Error| Failure::System { what: format!("writing {}", path.display()), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mode = if file.executable { 0o755 } else { 0o644 };
    let mut options = OpenOptions::new();
    // `create_new`: a file created since the check above is not overwritten.
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let mut opened = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::Usage(format!("{} already exists", path.display())),
        _ => failed(error),
    })?;
    opened.write_all(file.text.as_bytes()).map_err(failed)
}
