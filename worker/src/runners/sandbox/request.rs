//! Parses a call's arguments. The gateway checks them against the skill's schema, but calls that are sent directly
//! to a worker are checked only here.

use std::time::Duration;

use openskill_proto::limits::MAX_ID_BYTES;
use openskill_proto::v1::{ErrorCode, SkillError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::packages::PackageRequest;
use crate::config::allowed::{is_name, normalize_name};

/// The default and the maximum timeout of code.
const DEFAULT: Duration = Duration::from_secs(30);
const MOST: Duration = Duration::from_secs(300);

/// The maximum length of a package's version, in bytes.
const MAX_VERSION_BYTES: usize = 64;

/// The arguments of a call that runs code.
pub(super) struct Execute {
    pub(super) code: String,
    /// `None` for a session that ends with the call.
    pub(super) session_id: Option<String>,
    pub(super) timeout: Duration,
}

/// Parses the arguments of a call that runs code.
pub(super) fn read(input: &[u8]) -> Result<Execute, SkillError> {
    #[derive(Deserialize)]
    struct ExecuteArguments {
        code: String,
        session_id: Option<String>,
        timeout: Option<f64>,
    }
    let ExecuteArguments { code, session_id, timeout } = arguments(input)?;
    let timeout = match timeout {
        None => DEFAULT,
        Some(seconds) if seconds > 0.0 && seconds <= MOST.as_secs_f64() => Duration::from_secs_f64(seconds),
        Some(_) => return Err(invalid(format!("timeout must be above 0, and at most {} seconds", MOST.as_secs()))),
    };
    // Models pass an empty string for an argument that they do not want to set.
    let session_id = session_id.filter(|it| !it.is_empty()).map(valid_name).transpose()?;
    Ok(Execute { code, session_id, timeout })
}

/// Parses the package that a call requests, and the session to install it in.
pub(super) fn install(input: &[u8]) -> Result<(PackageRequest, Option<String>), SkillError> {
    #[derive(Deserialize)]
    struct InstallArguments {
        package_name: String,
        version: Option<String>,
        session_id: Option<String>,
    }
    let InstallArguments { package_name, version, session_id } = arguments(input)?;
    if !is_name(&package_name) {
        let rule = "package_name must be the name of one package, such as numpy, without a version, extras or a URL";
        return Err(invalid(rule.to_owned()));
    }
    let version = version.filter(|it| !it.is_empty());
    let is_version = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '+' | '!' | '-' | '_');
    let starts = |it: &String| it.starts_with(|first: char| first.is_ascii_alphanumeric());
    if version.as_ref().is_some_and(|it| it.len() > MAX_VERSION_BYTES || !starts(it) || !it.chars().all(is_version)) {
        return Err(invalid("version must be one exact version, such as 1.21.0".to_owned()));
    }
    let session_id = session_id.filter(|it| !it.is_empty()).map(valid_name).transpose()?;
    Ok((PackageRequest { name: normalize_name(&package_name), version }, session_id))
}

/// Parses a call's session id.
pub(super) fn session_id(input: &[u8]) -> Result<String, SkillError> {
    #[derive(Deserialize)]
    struct CloseArguments {
        session_id: String,
    }
    valid_name(arguments::<CloseArguments>(input)?.session_id)
}

/// Parses a call's maximum age.
pub(super) fn max_age(input: &[u8]) -> Result<Option<Duration>, SkillError> {
    #[derive(Deserialize)]
    struct CleanupArguments {
        max_age: Option<u64>,
    }
    Ok(arguments::<CleanupArguments>(input)?.max_age.map(Duration::from_secs))
}

fn arguments<T: DeserializeOwned>(input: &[u8]) -> Result<T, SkillError> {
    openskill_proto::json::read(input).map_err(|error| invalid(format!("the arguments can't be used: {error}")))
}

fn valid_name(name: String) -> Result<String, SkillError> {
    if name.is_empty() || name.len() > MAX_ID_BYTES || name.chars().any(char::is_control) {
        return Err(invalid(format!(
            "session_id must be 1 to {MAX_ID_BYTES} bytes and must not contain control characters"
        )));
    }
    Ok(name)
}

fn invalid(message: String) -> SkillError {
    SkillError::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_defaults_and_bounds() {
        let read_ = |text: &str| read(text.as_bytes());
        let plain = read_(r#"{"code": "1"}"#).unwrap();
        assert_eq!((plain.code.as_str(), plain.session_id, plain.timeout), ("1", None, DEFAULT));
        let named = read_(r#"{"code": "1", "session_id": "s", "timeout": 300}"#).unwrap();
        assert_eq!((named.session_id.as_deref(), named.timeout), (Some("s"), MOST));
        assert_eq!(read_(r#"{"code": "1", "session_id": ""}"#).unwrap().session_id, None);
        for bad in [
            r#"{}"#,
            r#"{"code": 1}"#,
            r#"{"code": "1", "timeout": 0}"#,
            r#"{"code": "1", "timeout": 301}"#,
            r#"{"code": "1", "timeout": -1e300}"#,
            r#"{"code": "1", "session_id": "a\nb"}"#,
        ] {
            assert_eq!(read_(bad).err().map(|it| it.code()), Some(ErrorCode::InvalidArgument), "{bad}");
        }
        assert!(session_id(br#"{"session_id": ""}"#).is_err() && session_id(br#"{"session_id": "s"}"#).is_ok());
        assert_eq!(max_age(br#"{"max_age": 60}"#).unwrap(), Some(Duration::from_secs(60)));
        assert!(max_age(br#"{"max_age": -1}"#).is_err());
    }

    #[test]
    fn a_package_is_one_name_and_one_version() {
        let read = |text: &str| install(text.as_bytes());
        let (request, session) =
            read(r#"{"package_name": "Foo_Bar", "version": "1.0+cpu", "session_id": "s"}"#).unwrap();
        let wanted = PackageRequest { name: "foo-bar".to_owned(), version: Some("1.0+cpu".to_owned()) };
        assert_eq!((request, session.as_deref()), (wanted, Some("s")));
        let (request, session) = read(r#"{"package_name": "six", "version": "", "session_id": ""}"#).unwrap();
        assert_eq!((request.version, session), (None, None));
        for bad in [
            r#"{}"#,
            r#"{"package_name": ""}"#,
            r#"{"package_name": "six==1.0"}"#,
            r#"{"package_name": "--index-url=https://x"}"#,
            r#"{"package_name": "six @ https://x"}"#,
            r#"{"package_name": "six[all]"}"#,
            r#"{"package_name": "six", "version": "1.*"}"#,
            r#"{"package_name": "six", "version": "-r x"}"#,
        ] {
            assert_eq!(read(bad).err().map(|it| it.code()), Some(ErrorCode::InvalidArgument), "{bad}");
        }
    }
}
