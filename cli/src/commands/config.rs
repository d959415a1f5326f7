//! `openskill config`: prints the settings and their sources, or a reference.

use crate::args::ConfigArgs;
use crate::exit::Failure;
use crate::settings::names::{ALL, REFERENCE};
use crate::settings::{RawSettings, Settings, mask_setting};
use crate::terminal::print_out;

pub(super) fn run(args: &ConfigArgs, raw: &RawSettings) -> Result<(), Failure> {
    if args.reference {
        print_out(REFERENCE);
        return Ok(());
    }
    if args.metrics {
        print_out(&openskill_telemetry::metrics::reference::reference());
        return Ok(());
    }
    let file = raw.project().map_or_else(|| "-".to_owned(), |it| it.file.display().to_string());
    print_out(&format!("settings of the project: {file}\n"));
    #[cfg(feature = "worker")]
    if let Some(folder) = crate::serve::up::state_folder(raw) {
        print_out(&format!("state of `openskill up`: {}\n", folder.display()));
    }
    let width = ALL.iter().map(|setting| setting.name.len()).max().unwrap_or_default();
    for setting in ALL.iter() {
        let value = raw.value(setting.name);
        let shown = if value.is_empty() { "-".to_owned() } else { mask_setting(setting.name, value) };
        print_out(&format!("{:width$}  {:12}  {shown}\n", setting.name, raw.origin(setting.name).name()));
    }
    // Validate after printing, so that the values are shown even if some are invalid.
    Settings::resolve(raw)?.agent.models(raw)?;
    Ok(())
}
