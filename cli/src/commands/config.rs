//! `openskill config`: prints the settings and their sources, or a reference.

use crate::args::ConfigArgs;
use crate::exit::Failure;
use crate::settings::names::{ALL, REFERENCE};
use crate::settings::{RawSettings, Settings, mask_setting};
use crate::terminal::print_out;

pub(super) fn run(args: &ConfigArgs, raw: &RawSettings) -> Result<(), Failure> {
    if args.reference {
        print_out(&without_links(REFERENCE));
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

/// Replaces links, whose pages the program does not have, by their texts.
fn without_links(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        let link = after.split_once("](").filter(|(label, _)| !label.contains([']', '\n']));
        match link.and_then(|(label, after)| Some((label, after.split_once(')')?.1))) {
            Some((label, after)) => {
                text.push_str(label);
                rest = after;
            }
            None => {
                text.push('[');
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_texts() {
        assert_eq!(without_links("a [b](c.md#d), `[e]` [f\n](g) [h"), "a b, `[e]` [f\n](g) [h");
        assert!(!without_links(REFERENCE).contains(".md"));
    }
}
