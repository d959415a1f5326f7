//! The settings of operations, and where they are stored.

use std::path::PathBuf;

use openskill_gateway::config::{OperationsConfig, SigningKeys, WebhookConfig};
use openskill_net::egress::allow::Allowed;
use openskill_store::Location;

use super::reader::Reader;

const STORE: &str = "OPENSKILL_STORE";
const WEBHOOK_SECRET: &str = "OPENSKILL_WEBHOOK_SECRET";
const WEBHOOK_ALLOW: &str = "OPENSKILL_WEBHOOK_ALLOW";

/// What a valid store is. The value itself is never shown, because it may contain a password.
const WANTED: &str =
    "it must be a file, sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE, `memory` or `off`; the value is not shown";

/// What valid keys are. The value itself is never shown.
const WANTED_KEYS: &str = "it must be one or two keys, separated by a comma, each `whsec_` and the base64 of 24 to 64 random bytes: \
                           `echo whsec_$(openssl rand -base64 32)` makes one; the value is not shown";

/// Reads the settings. The store is opened later, by the gateway.
pub(super) fn read(reader: &mut Reader<'_>) -> OperationsConfig {
    let given = reader.raw.given(STORE);
    let store = given.filter(|it| *it != "off").and_then(|text| {
        let location = location(text);
        if location.is_none() {
            reader.problem(STORE, WANTED);
        }
        location
    });
    OperationsConfig {
        store,
        is_default: given.is_none(),
        max_waiting: reader.number("OPENSKILL_OPERATIONS_MAX", 1, 10_000_000),
        max_running: reader.number("OPENSKILL_OPERATIONS_RUNNING", 1, 100_000),
        keep: reader.seconds("OPENSKILL_OPERATIONS_KEEP_S", 60, 366 * 86_400),
        keep_tasks: reader.seconds("OPENSKILL_MCP_TASK_LIFETIME_S", 60, 30 * 86_400),
        keep_bytes: reader.number("OPENSKILL_OPERATIONS_KEEP_BYTES", 1024 * 1024, 1 << 50) as u64,
        blobs: reader.raw.given("OPENSKILL_BLOBS").map(PathBuf::from),
        webhooks: webhooks(reader),
    }
}

fn webhooks(reader: &mut Reader<'_>) -> Option<WebhookConfig> {
    let hosts: Vec<_> = reader.raw.list(WEBHOOK_ALLOW).map(str::to_owned).collect();
    let allow = Allowed::parse(&hosts).map_err(|reason| reader.problem(WEBHOOK_ALLOW, reason)).unwrap_or_default();
    let keys = SigningKeys::parse(reader.raw.given(WEBHOOK_SECRET)?);
    if keys.is_none() {
        reader.problem(WEBHOOK_SECRET, WANTED_KEYS);
    }
    Some(WebhookConfig { keys: keys?, allow })
}

fn location(text: &str) -> Option<Location> {
    if text == "memory" {
        return Some(Location::Memory);
    }
    if ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
        return Some(Location::Postgres(text.to_owned()));
    }
    // A misspelled URL must not become the name of a file.
    let is_url = text.contains("://") || text.starts_with("postgres:") || text.starts_with("postgresql:");
    let path = text.strip_prefix("sqlite:").unwrap_or(text);
    (!is_url && !path.is_empty()).then(|| Location::File(path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{RawSettings, Settings, mask_setting};

    fn resolve(value: &str) -> Result<OperationsConfig, String> {
        let settings = Settings::resolve(&RawSettings::for_test(&[(STORE, value)]));
        settings.map(|it| it.gateway.operations).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_store_is_a_file_or_a_database_or_a_word() {
        let postgres = "postgres://u:p@h/d".to_owned();
        for (value, location) in [
            ("memory", Some(Location::Memory)),
            ("off", None),
            ("/var/lib/operations.sqlite", Some(Location::File("/var/lib/operations.sqlite".into()))),
            ("sqlite:operations.sqlite", Some(Location::File("operations.sqlite".into()))),
            ("postgres://u:p@h/d", Some(Location::Postgres(postgres))),
        ] {
            let config = resolve(value).unwrap();
            assert_eq!((config.store, config.is_default), (location, false), "{value}");
        }
        assert!(resolve("").unwrap().is_default);
    }

    #[test]
    fn webhooks_need_keys_which_are_never_shown() {
        let resolve = |secret: &str, allow: &str| {
            let settings =
                Settings::resolve(&RawSettings::for_test(&[(WEBHOOK_SECRET, secret), (WEBHOOK_ALLOW, allow)]));
            settings.map(|it| it.gateway.operations.webhooks).map_err(|problems| problems.to_string())
        };
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLpSw";
        assert!(resolve("", "10.0.0.0/8").unwrap().is_none());
        let config = resolve(&format!("{secret}, {secret}"), "10.0.0.0/8, receiver:9000").unwrap().unwrap();
        assert!(!format!("{config:?}").contains("MfKQ"), "{config:?}");
        assert_eq!(mask_setting(WEBHOOK_SECRET, secret), "***");
        let problem = resolve("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLpSw", "10.0.0.0/99").unwrap_err();
        assert!(problem.contains("openssl rand") && problem.contains("'10.0.0.0/99'"), "{problem}");
        assert!(!problem.contains("MfKQ"), "{problem}");
    }

    #[test]
    fn a_password_is_never_shown() {
        for wrong in
            ["mysql://u:s3cret@h/d", "postgres:/u:s3cret@h/d", "postgresql:u:s3cret", "sqlite:", "sqlite://s3cret"]
        {
            let problem = resolve(wrong).unwrap_err();
            assert!(problem.contains("OPENSKILL_STORE (flag)") && !problem.contains("s3cret"), "{problem}");
        }
        let config = resolve("postgres://u:s3cret@h/d").unwrap();
        assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
        assert_eq!(mask_setting(STORE, "postgres://u:s3cret@h/d"), "***");
    }
}
