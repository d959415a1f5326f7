//! `openskill add`: copies sets of shipped skills into the project, where they can be read and changed.
//!
//! Files that differ from the shipped ones are never overwritten without a flag. Everything is written to a temporary
//! directory first, so that no part of a set is left if the disk is full.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use openskill_worker::check::invalid_files;
use openskill_worker::doctor::{Finding, Status, examine};
use openskill_worker::shipped::{SETS, SkillSet};

use super::new::skill_folder;
use crate::args::AddArgs;
use crate::exit::Failure;
use crate::runtime::single_threaded;
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{pluralize, print_err, print_out, program};

pub(super) fn run(args: &AddArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    if args.sets.is_empty() {
        list();
        return Ok(());
    }
    let mut sets = Vec::new();
    for name in &args.sets {
        let set = SkillSet::find(name).map_err(|unknown| Failure::Usage(unknown.to_string()))?;
        if !sets.iter().any(|it: &&SkillSet| it.name == set.name) {
            sets.push(set);
        }
    }
    let folder = skill_folder(&args.skills, settings)?;
    let copies = sets.iter().map(|set| SetCopy::compare(set, &folder.join(set.name))).collect::<Result<Vec<_>, _>>()?;
    let differing: Vec<_> = copies.iter().flat_map(|it| &it.differing).map(|it| it.display().to_string()).collect();
    if !differing.is_empty() && !args.force {
        let files = differing.join("\n  ");
        let reason = format!(
            "these files differ from the shipped ones, and nothing was written:\n  {files}\n`--force` replaces them"
        );
        return Err(Failure::Usage(reason));
    }
    write(&folder, &copies).map_err(Failure::system(format!("writing to {}", folder.display())))?;
    for copy in &copies {
        let (target, files) = (copy.target.display(), copy.changes());
        match files {
            0 => print_out(&format!("kept  {target}: it is up to date\n")),
            _ => print_out(&format!("wrote {target}: {}\n", pluralize(files, "file"))),
        }
    }
    show_needs(&sets, settings, raw);
    print_out(&next(&sets));
    Ok(())
}

fn list() {
    for set in &SETS {
        print_out(&format!("{:<9} {:>2} skills  {}\n", set.name, set.skill_ids().count(), set.purpose));
    }
    let program = program();
    print_out(&format!(
        "\n`{program} add SET...` copies sets into the project. `{program} up --with SET,...` serves them without \
         copying.\n"
    ));
}

/// A set and its copy in the project, which need not exist.
struct SetCopy {
    set: &'static SkillSet,
    target: PathBuf,
    /// The files that are not there.
    missing: Vec<PathBuf>,
    /// The files whose texts are others.
    differing: Vec<PathBuf>,
}

impl SetCopy {
    fn compare(set: &'static SkillSet, target: &Path) -> Result<Self, Failure> {
        if target.symlink_metadata().is_ok() && !target.is_dir() {
            return Err(Failure::Usage(format!("'{}' is not a directory: move it away", target.display())));
        }
        let mut copy = Self { set, target: target.to_owned(), missing: Vec::new(), differing: Vec::new() };
        for (name, text) in set.files() {
            let path = target.join(name);
            match fs::metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => copy.missing.push(path),
                Ok(found)
                    if found.len() == text.len() as u64 && fs::read(&path).is_ok_and(|it| it == text.as_bytes()) => {}
                _ => copy.differing.push(path),
            }
        }
        Ok(copy)
    }

    fn changes(&self) -> usize {
        self.missing.len() + self.differing.len()
    }

    /// Moves its files from a directory that has the whole set.
    fn move_from(&self, whole: &Path) -> io::Result<()> {
        if self.target.symlink_metadata().is_err() {
            return fs::rename(whole, &self.target);
        }
        for path in self.missing.iter().chain(&self.differing) {
            let from = whole.join(path.strip_prefix(&self.target).unwrap_or(path));
            fs::create_dir_all(path.parent().unwrap_or(&self.target))?;
            fs::rename(from, path)?;
        }
        Ok(())
    }
}

/// Writes all files that are missing or differ.
fn write(folder: &Path, copies: &[SetCopy]) -> io::Result<()> {
    // Workers do not read it, because its name is hidden.
    let temporary = folder.join(format!(".add-{}", std::process::id()));
    let written = copies.iter().filter(|it| it.changes() > 0).try_for_each(|copy| {
        let whole = temporary.join(copy.set.name);
        fs::create_dir_all(&whole)?;
        // Skills may run as other users than the worker, whatever the umask is.
        fs::set_permissions(&whole, Permissions::from_mode(0o755))?;
        copy.set.write(&whole)
    });
    let moved = written.and_then(|()| {
        let mut changed = copies.iter().filter(|it| it.changes() > 0);
        changed.try_for_each(|copy| copy.move_from(&temporary.join(copy.set.name)))
    });
    let _ = fs::remove_dir_all(&temporary);
    moved
}

/// Prints what the sets need on this machine, and which of their files cannot be served.
fn show_needs(sets: &[&SkillSet], settings: &Settings, raw: &RawSettings) {
    let config = match serve::worker::config(settings, raw) {
        Ok(config) => config,
        Err(failure) => return print_err(&format!("cannot say what the sets need: {failure}\n")),
    };
    let is_of_set = |file: &Path| {
        let folder = config.skill_dirs.first().and_then(|it| file.strip_prefix(it).ok());
        folder.is_some_and(|file| sets.iter().any(|set| file.starts_with(set.name)))
    };
    for error in invalid_files(&config).iter().filter(|it| is_of_set(&it.file)) {
        print_err(&format!("{error}\n"));
    }
    // Only the machine: the skills of the project are not started.
    let config = openskill_worker::Config { skill_dirs: Vec::new(), shipped: None, ..config };
    let found = single_threaded()
        .and_then(|it| it.block_on(examine(config)).map_err(Failure::system("setting up the sandbox")));
    let machine = match found {
        Ok(found) => found.machine,
        Err(failure) => return print_err(&format!("{failure}\n")),
    };
    let is_lacking =
        |it: &&Finding| it.status != Status::Ok && sets.iter().any(|set| set.needs.contains(&it.topic.as_str()));
    for finding in machine.iter().filter(is_lacking) {
        print_out(&format!("needs {}: {}\n", finding.topic, finding.text));
    }
}

fn next(sets: &[&SkillSet]) -> String {
    let program = program();
    let lists = sets.iter().map(|it| format!("  {program} skills --toolset {}\n", it.toolset)).collect::<String>();
    format!("\nNext:\n  {program} up\n\nIn another terminal:\n{lists}")
}
