//! `openskill manifest show`: prints the manifests that the functions of a Python file mean.

use crate::args::ShowManifestArgs;
use crate::exit::Failure;
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{print_err, print_out};
use crate::yaml::yaml;

pub(super) fn show(args: &ShowManifestArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let config = serve::worker::config(settings, raw)?;
    let file = std::path::absolute(&args.file).map_err(Failure::system("finding the file"))?;
    let read = openskill_worker::check::read_functions(&config, &file);
    let manifests = read.map_err(|errors| {
        errors.iter().for_each(|error| print_err(&format!("{error}\n")));
        Failure::Reported
    })?;
    manifests.iter().for_each(|it| print_out(&format!("---\n{}", yaml(it))));
    Ok(())
}
