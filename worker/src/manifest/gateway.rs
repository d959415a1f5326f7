//! Skills that the gateway runs itself. Their manifests can't contain settings for a worker.

use super::error::ManifestFault;
use super::raw;

/// The runners that gateways of this version implement themselves.
pub(crate) const ANSWERED: [&str; 1] = ["gateway:tool_needs"];

/// Rejects settings for a worker. They would be ignored silently, because such a skill does not run on a worker.
pub(super) fn check(raw: &raw::RawManifest) -> Result<(), ManifestFault> {
    if !ANSWERED.iter().any(|key| key.strip_prefix("gateway:") == Some(&raw.runtime)) {
        let known: Vec<_> = ANSWERED.iter().filter_map(|key| key.strip_prefix("gateway:")).collect();
        return Err(("runtime", format!("must be one that a gateway answers: {}", known.join(", "))).into());
    }
    match raw.worker_settings().next() {
        Some(field) => {
            let reason =
                format!("{field} applies only to skills that run on a worker, and the gateway answers this skill");
            Err((field, reason).into())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::manifest::{Manifest, Rules, RunnerSpec};

    fn parse(more: &str) -> Result<Manifest, String> {
        let text = format!("id: needs\ntype: gateway\n{more}\n");
        let rules = Rules { allowed_root: Path::new("/data"), toolset: None };
        Manifest::parse(Path::new("/skills/needs.yaml"), &text, rules).map_err(|error| error.to_string())
    }

    #[test]
    fn a_skill_of_the_gateway_has_nothing_that_runs_on_a_worker() {
        let manifest = parse("runtime: tool_needs").unwrap();
        assert_eq!((manifest.how, manifest.runner.as_str()), (RunnerSpec::Gateway, "gateway:tool_needs"));
        for (more, word) in [
            ("runtime: weather", "tool_needs"),
            ("", "tool_needs"),
            ("runtime: tool_needs\nentry: main.py", "entry applies only to skills that run on a worker"),
            ("runtime: tool_needs\nlimits: {memory_mb: 1}", "answers this skill"),
            ("runtime: tool_needs\nenv: [TOKEN]", "answers this skill"),
            ("runtime: tool_needs\nagent: {prompt: x}", "applies only to agent skills"),
        ] {
            let error = parse(more).unwrap_err();
            assert!(error.contains(word), "{more}: {error}");
        }
    }
}
