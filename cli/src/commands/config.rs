//! `openskill config`: prints the settings and their sources, or a reference.

use std::process::ExitCode;

use crate::args::ConfigArgs;
use crate::exit::Failure;
use crate::settings::names::ALL;
use crate::settings::{RawSettings, Settings, mask_setting, reference};
use crate::terminal::print_out;

pub(super) fn run(args: &ConfigArgs, raw: &RawSettings) -> Result<ExitCode, Failure> {
    if args.reference {
        print_out(&reference());
        return Ok(ExitCode::SUCCESS);
    }
    if args.metrics {
        print_out(&openskill_metrics::reference::reference());
        return Ok(ExitCode::SUCCESS);
    }
    let width = ALL.iter().map(|setting| setting.name.len()).max().unwrap_or_default();
    for setting in ALL.iter() {
        let value = raw.value(setting.name);
        let shown = if value.is_empty() { "-".to_owned() } else { mask_setting(setting.name, value) };
        print_out(&format!("{:width$}  {:12}  {shown}\n", setting.name, raw.origin(setting.name).to_string()));
    }
    // Validate after printing, so that the values are shown even if some are invalid.
    Settings::resolve(raw)?.agent.models(raw)?;
    Ok(ExitCode::SUCCESS)
}
