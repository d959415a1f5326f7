//! `openskill config`.

use std::process::ExitCode;

use crate::args::Config;
use crate::exit::Failure;
use crate::settings::names::ALL;
use crate::settings::{Raw, Settings, mask_setting, reference};
use crate::terminal::say;

pub(super) fn run(args: &Config, raw: &Raw) -> Result<ExitCode, Failure> {
    if args.reference {
        say(&reference());
        return Ok(ExitCode::SUCCESS);
    }
    if args.metrics {
        say(&openskill_metrics::reference::reference());
        return Ok(ExitCode::SUCCESS);
    }
    let width = ALL.iter().map(|setting| setting.name.len()).max().unwrap_or_default();
    for setting in ALL.iter() {
        let value = raw.value(setting.name);
        let shown = if value.is_empty() { "-".to_owned() } else { mask_setting(setting.name, value) };
        say(&format!("{:width$}  {:12}  {shown}\n", setting.name, raw.origin(setting.name).to_string()));
    }
    // Values first, so that they show even if some are invalid.
    Settings::resolve(raw)?.agent.models(raw)?;
    Ok(ExitCode::SUCCESS)
}
