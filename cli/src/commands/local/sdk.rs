//! `openskill sdk install`: writes the Python SDK of this program where editors, type checkers and tests find it.

use std::path::{Path, PathBuf};

use openskill_worker::sdk;

use crate::args::SdkCommand;
use crate::exit::Failure;
use crate::settings::RawSettings;
use crate::terminal::print_out;

pub(super) fn run(command: &SdkCommand, raw: &RawSettings) -> Result<(), Failure> {
    let SdkCommand::Install(args) = command;
    let folder = args.folder.clone().or_else(|| default_folder(raw)).ok_or_else(|| {
        Failure::Usage(
            "there is no virtual environment here: activate one, make .venv with `python3 -m venv .venv`, or name a \
             directory"
                .to_owned(),
        )
    })?;
    let target = if is_environment(&folder) { site_packages(&folder)? } else { folder };
    sdk::write(&target).map_err(Failure::system(format!("writing to {}", target.display())))?;
    print_out(&format!("wrote {}\n", target.join(sdk::PACKAGE).display()));
    Ok(())
}

fn is_environment(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").is_file()
}

/// Returns the active virtual environment, or that of the project.
fn default_folder(raw: &RawSettings) -> Option<PathBuf> {
    let active = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let project = raw.project().map_or_else(|| PathBuf::from(".venv"), |it| it.folder().join(".venv"));
    active.into_iter().chain([project]).find(|it| is_environment(it))
}

/// Returns the folder of packages of a virtual environment.
fn site_packages(environment: &Path) -> Result<PathBuf, Failure> {
    let entries = environment.join("lib").read_dir().into_iter().flatten().flatten();
    let mut folders = entries.map(|it| it.path().join("site-packages")).filter(|it| it.is_dir());
    folders.next().ok_or_else(|| {
        let shown = environment.display();
        Failure::Usage(format!("the virtual environment {shown} has no lib/python3.N/site-packages: make it again"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_environment_gets_it_among_its_packages() {
        let folder = std::env::temp_dir().join(format!("openskill-cli-sdk-{}", std::process::id()));
        assert!(site_packages(&folder).is_err());
        std::fs::create_dir_all(folder.join("lib/python3.12/site-packages")).unwrap();
        assert_eq!(site_packages(&folder).unwrap(), folder.join("lib/python3.12/site-packages"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
