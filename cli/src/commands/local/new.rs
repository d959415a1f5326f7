//! `openskill new`: creates a skill from a template: manifest, program and test.
//!
//! Where possible, the new skill passes `openskill check` without edits. Existing files are never overwritten.

use std::path::{Path, PathBuf};

use crate::args::{NewArgs, SkillFolders, SkillType};
use crate::exit::Failure;
use crate::new_files::{NewFile, write_new};
use crate::settings::Settings;
use crate::terminal::print_out;

pub(super) fn run(args: &NewArgs, settings: &Settings) -> Result<(), Failure> {
    let id = &args.id;
    if !openskill_worker::manifest::valid_id(id) {
        let rule = openskill_worker::manifest::ID_RULE;
        return Err(Failure::Usage(format!("'{id}' is not a valid skill id: {rule}")));
    }
    if args.kind == SkillType::Function && id.contains('-') {
        return Err(Failure::Usage(format!(
            "'{id}' is not a valid name of a Python function: use letters, digits and _"
        )));
    }
    let folder = skill_folder(&args.skills, settings)?;
    let files = files(args.kind, id);
    write_new(&folder, &files)?;
    list_written(&folder, &files);
    let flag =
        args.skills.skills_dir.as_ref().map_or_else(String::new, |_| format!(" --skills-dir {}", folder.display()));
    print_out(&next(args.kind, id, &folder, &flag));
    Ok(())
}

/// Returns the directory for new skills: the first one. It exists, unless a flag names it.
pub(super) fn skill_folder(flags: &SkillFolders, settings: &Settings) -> Result<PathBuf, Failure> {
    let folder = settings.worker.config.skill_dirs.first().map_or_else(|| PathBuf::from("."), Clone::clone);
    if flags.skills_dir.is_none() && !folder.is_dir() {
        let shown = folder.display();
        let hint = "change to the project's directory, make a project here with `openskill init`, or set another directory with \
                    --skills-dir";
        return Err(Failure::Usage(format!("the skill directory '{shown}' does not exist: {hint}")));
    }
    Ok(folder)
}

/// Returns the files of a new skill, relative to the skill directory.
pub(super) fn files(kind: SkillType, id: &str) -> Vec<NewFile> {
    let file = |path: String, template: &str, mode| NewFile { path, text: template.replace("@ID@", id), mode };
    let manifest = |template| file(format!("{id}.yaml"), template, 0o644);
    // Tests go to a separate directory: a script next to manifests would be loaded as a skill.
    let test = |template| file(format!("tests/test_{id}.py"), template, 0o644);
    match kind {
        SkillType::Python => vec![
            manifest(include_str!("new/python.yaml")),
            file(format!("{id}.py"), include_str!("new/python.py"), 0o644),
            test(include_str!("new/test_python.py")),
        ],
        SkillType::Function => vec![
            file(format!("{id}.py"), include_str!("new/function.py"), 0o644),
            test(include_str!("new/test_function.py")),
        ],
        SkillType::Exec => vec![
            manifest(include_str!("new/exec.yaml")),
            file(format!("{id}.sh"), include_str!("new/exec.sh"), 0o755),
            test(include_str!("new/test_exec.py")),
        ],
        SkillType::Http => vec![manifest(include_str!("new/http.yaml"))],
        SkillType::Docker => vec![manifest(include_str!("new/docker.yaml"))],
        SkillType::McpStdio => vec![manifest(include_str!("new/mcp_stdio.yaml"))],
        SkillType::McpHttp => vec![manifest(include_str!("new/mcp_http.yaml"))],
        SkillType::Inproc => vec![manifest(include_str!("new/inproc.yaml"))],
        SkillType::Session => vec![manifest(include_str!("new/session.yaml"))],
    }
}

/// Prints which files were written.
pub(super) fn list_written(folder: &Path, files: &[NewFile]) {
    files.iter().for_each(|it| print_out(&format!("wrote {}\n", folder.join(&it.path).display())));
}

/// Suggests the next steps. `flag` is the flag that makes other commands read the same directory.
fn next(kind: SkillType, id: &str, folder: &Path, flag: &str) -> String {
    let shown = folder.display();
    let edit = |what: &str| format!("  edit {shown}/{id}.yaml: {what}\n");
    let (first, call) = match kind {
        SkillType::Python | SkillType::Exec => (format!("  python3 {shown}/tests/test_{id}.py\n"), "text=hello"),
        // The test of a function needs the SDK; the example is also a test.
        SkillType::Function | SkillType::Inproc => (String::new(), "text=hello"),
        SkillType::Session => (String::new(), "code='1 + 2'"),
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
