//! The grammar of `openskill keys`.

use clap::{Args as ClapArgs, Subcommand};
use openskill_proto::timestamp::{Timestamp, parse_duration};

use super::output::Output;

#[derive(Debug, ClapArgs)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Add a key for a principal and print it, once; for a new principal, with the policy of the flags
    Create(CreateKey),
    /// List principals and their keys, without secrets
    List(ListKeys),
    /// Remove a key: a gateway that runs refuses it within a second
    Revoke(RevokeKey),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct KeyFile {
    /// Key file; default: OPENSKILL_KEYS
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CreateKey {
    #[command(flatten)]
    pub(crate) file: KeyFile,
    /// Name of the principal: whose calls are made with the key
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: String,
    /// Skills that it may see and call, separated by commas; `*` means all
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) skills: Vec<String>,
    /// Toolsets whose skills it may see and call, separated by commas; `*` means all
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) toolsets: Vec<String>,
    /// Allow skills that are marked destructive
    #[arg(long)]
    pub(crate) destructive: bool,
    /// Forbid its calls to ask their user questions
    #[arg(long)]
    pub(crate) not_interactive: bool,
    /// Allow it to administer the gateway and to see all recorded calls and metrics
    #[arg(long)]
    pub(crate) admin: bool,
    /// Maximum number of calls a second, on average
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<f64>,
    /// Maximum number of calls that begin at once after a pause; default: the calls of one second
    #[arg(long, value_name = "N", requires = "rate")]
    pub(crate) burst: Option<u32>,
    /// Maximum number of calls in flight
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<usize>,
    /// Maximum size of the arguments of calls in flight, in bytes
    #[arg(long, value_name = "N")]
    pub(crate) bytes: Option<usize>,
    /// Maximum number of session ids in use
    #[arg(long, value_name = "N")]
    pub(crate) sessions: Option<usize>,
    /// When the key expires: a time such as 2027-01-31T12:00:00Z, or a duration such as 90d; default: never
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    pub(crate) expires: Option<Timestamp>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListKeys {
    #[command(flatten)]
    pub(crate) file: KeyFile,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RevokeKey {
    #[command(flatten)]
    pub(crate) file: KeyFile,
    /// Id of the key: 16 hexadecimal digits, as `openskill keys list` shows them, or the whole key
    #[arg(value_parser = key_id)]
    pub(crate) id: openskill_identity::key::KeyId,
}

/// Parses a key id, given alone or as part of the whole key.
fn key_id(text: &str) -> Result<openskill_identity::key::KeyId, &'static str> {
    let id = text.strip_prefix("osk_").and_then(|key| key.split('_').next()).unwrap_or(text);
    id.parse().map_err(|()| "must be 16 hexadecimal digits")
}

impl KeysArgs {
    /// Returns the flag that names the key file.
    pub(crate) fn file(&self) -> &KeyFile {
        match &self.command {
            KeysCommand::Create(it) => &it.file,
            KeysCommand::List(it) => &it.file,
            KeysCommand::Revoke(it) => &it.file,
        }
    }
}

fn expiry(text: &str) -> Result<Timestamp, String> {
    let now = Timestamp::now();
    let later = || {
        let micros = u64::try_from(parse_duration(text)?.as_micros()).ok()?;
        now.0.checked_add(micros).map(Timestamp)
    };
    let end = Timestamp::parse(text).or_else(later).ok_or("must be a time such as 2027-01-31T12:00:00Z, or 90d")?;
    if end > now { Ok(end) } else { Err("that time is past".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_ends_at_a_time_or_after_one() {
        assert!(expiry("90d").unwrap() > Timestamp::now());
        assert_eq!(expiry("2999-01-01T00:00:00Z").unwrap(), Timestamp::parse("2999-01-01T00:00:00Z").unwrap());
        for text in ["2001-01-01T00:00:00Z", "soon", "90", "0d"] {
            assert!(expiry(text).is_err(), "{text}");
        }
    }
}
