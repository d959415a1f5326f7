//! Chromium's command line and enterprise policies. They keep the browser sandboxed and prevent requests to other
//! services.
//!
//! Chromium reads policies from files. They cover settings that have no flag, and settings that pages could
//! circumvent if they were set by a flag.
//!
//! - They allow only web addresses: the browser's internal pages show and do more than a page may.
//! - The PDF viewer is an extension whose output scripts can't read, so PDF files are downloaded instead.
//! - They deny permission prompts (2), because there is no user to answer them.
//! - They disable background activity.

use std::path::PathBuf;

use openskill_text::word_list::words;

use super::host_process::{HOME, RELAY_PORT};

/// The size of a page, in CSS pixels.
pub(super) const PAGE: (u32, u32) = (1280, 800);

/// Returns the complete list of arguments.
pub(super) fn arguments() -> Vec<String> {
    let (width, height) = PAGE;
    let plain = include_str!("flags.txt").lines().filter(|it| !it.starts_with('#'));
    let mut all: Vec<String> = plain.map(str::to_owned).collect();
    let disabled: Vec<&str> = words(include_str!("disabled_features.txt")).collect();
    all.extend([
        format!("--user-data-dir={HOME}/profile"),
        format!("--disk-cache-size={}", 32 << 20),
        format!("--window-size={width},{}", height + 150),
        format!("--proxy-server=socks5://127.0.0.1:{RELAY_PORT}"),
        format!("--disable-features={}", disabled.join(",")),
        "about:blank".to_owned(),
    ]);
    all
}

/// Where Chromium and Chrome look for policy files.
const POLICY_FILES: [&str; 2] =
    ["/etc/chromium/policies/managed/openskill.json", "/etc/opt/chrome/policies/managed/openskill.json"];

/// Returns the policy files with their content.
pub(super) fn policies() -> Vec<(PathBuf, String)> {
    POLICY_FILES.iter().map(|it| (PathBuf::from(it), include_str!("policies.json").to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::arguments;

    #[test]
    fn the_browsers_own_walls_stay() {
        for argument in arguments() {
            for wall in ["no-sandbox", "disable-web-security", "disable-site-isolation", "single-process", "no-zygote"]
            {
                assert!(!argument.contains(wall), "{argument}");
            }
        }
    }
}
