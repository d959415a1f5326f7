//! `openskill init`: creates a project in a directory: settings, skills and their data.
//!
//! Existing files are left unchanged. A directory with an `openskill.toml` already is a project.

use std::ffi::OsStr;
use std::path::Path;

use super::new;
use crate::args::{InitArgs, SkillType};
use crate::exit::Failure;
use crate::new_files::{NewFile, write_new};
use crate::terminal::{print_out, program};

/// Written last, so that an interrupted command can be repeated.
const SETTINGS: &str = "openskill.toml";

/// The id of the example skill.
const EXAMPLE: &str = "shout";

pub(in crate::commands) fn run(args: &InitArgs) -> Result<(), Failure> {
    let folder = args.folder.as_path();
    if folder.join(SETTINGS).symlink_metadata().is_ok() {
        let shown = folder.join(SETTINGS).display().to_string();
        let hint = "this directory is already a project; `openskill new ID` adds a skill to it";
        return Err(Failure::Usage(format!("{shown} already exists: {hint}")));
    }
    let has_skills = has_own_skills(&folder.join("skills"));
    let mut files = vec![
        plain(".gitignore", include_str!("init/gitignore")),
        // Git does not keep empty directories.
        plain("data/.gitkeep", ""),
    ];
    if !has_skills {
        let skill = new::files(SkillType::Python, EXAMPLE).into_iter();
        files.extend(skill.map(|it| NewFile { path: format!("skills/{}", it.path), ..it }));
    }
    files.push(plain(SETTINGS, include_str!("init/openskill.toml")));
    let (kept, missing): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|it| folder.join(&it.path).symlink_metadata().is_ok());
    write_new(folder, &missing)?;
    new::list_written(folder, &missing);
    kept.iter().for_each(|it| print_out(&format!("kept  {}\n", folder.join(&it.path).display())));
    print_out(&next(folder, has_skills));
    Ok(())
}

/// Whether the directory contains skills other than the example. An interrupted `init` may have left part of the
/// example.
fn has_own_skills(skills: &Path) -> bool {
    let is_own = |name: &OsStr| !name.to_string_lossy().starts_with(EXAMPLE);
    skills.read_dir().is_ok_and(|mut it| it.any(|entry| entry.is_ok_and(|it| is_own(&it.file_name()))))
}

fn plain(path: &str, text: &str) -> NewFile {
    NewFile { path: path.to_owned(), text: text.to_owned(), mode: 0o644 }
}

fn next(folder: &Path, has_skills: bool) -> String {
    let binary = program();
    let enter = if folder == Path::new(".") { String::new() } else { format!("  cd {}\n", folder.display()) };
    let call = if has_skills { String::new() } else { format!("  {binary} invoke {EXAMPLE} text=hello\n") };
    format!(
        "\nNext:\n{enter}\
         \x20 {binary} check                     # runs the examples of the skills\n\
         \x20 {binary} up                        # serves them, until Ctrl-C\n\n\
         In another terminal:\n{enter}\
         \x20 {binary} skills\n{call}\
         \x20 {binary} new ID --type python      # creates a skill: a Python function\n\
         \x20 {binary} add                       # lists skills to add: a browser, a sandbox, research\n"
    )
}
