//! `cli:exec`: runs a program without a shell, in one process per call.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use rustix::fs::{Access, access};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::manifest::exec::{Element, Exec, Stdin};
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::once::{StdinContent, check_file, check_start, once};
use crate::runners::services::Services;

/// The maximum length of a command line, in bytes. Messages to the supervisor are limited, and also contain the
/// environment.
const MAX_COMMAND_LINE_BYTES: usize = 32 * 1024;

pub(crate) struct Executable {
    services: Services,
}

impl Executable {
    pub(crate) fn new(services: &Services) -> Self {
        Self { services: services.clone() }
    }

    /// Plans the jail of the program's process. It may read the program's folder, and the target's folder if the
    /// program is a link.
    fn jail(&self, program: &Path, manifest: &Manifest) -> Result<Plan, String> {
        let real = program.canonicalize().ok();
        let folders = [Some(program), real.as_deref()].into_iter().flatten().filter_map(Path::parent);
        let readable: Vec<_> = folders.map(Path::to_owned).chain([program.to_owned()]).collect();
        self.services.jailer.plan(manifest, &readable, &[])
    }

    fn command(&self, exec: &Exec, invocation: &Invocation) -> Result<(Command, StdinContent), SkillError> {
        let environment = &self.services.environment;
        check_start("program", &exec.program)?;
        let jail = self.jail(&exec.program, &invocation.manifest);
        let given = stdin(&exec.stdin, &invocation.input)?;
        let command = Command {
            program: exec.program.clone(),
            args: command_line(&exec.args, &invocation.input)?,
            env: environment.for_call(invocation),
            cwd: environment.start_folder().to_owned(),
            limits: ProcessLimits::from_limits(&invocation.manifest.limits),
            nice: 0,
            forks: false,
            jail: Some(jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?),
            root: Some(environment.run_root(&invocation.manifest)),
        };
        Ok((command, given))
    }
}

impl Runner for Executable {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let RunnerSpec::Exec(exec) = &manifest.how else {
            return Err("its manifest does not name a program".to_owned());
        };
        check_file("program", &exec.program)?;
        access(&exec.program, Access::EXEC_OK).map_err(|_| {
            let name = exec.program.file_name().unwrap_or_default().to_string_lossy();
            format!("its program '{name}' is not executable: run `chmod +x` on it")
        })?;
        self.jail(&exec.program, manifest).map(|_| self.services.jailer.announce(manifest))
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let manifest = Arc::clone(&invocation.manifest);
            let RunnerSpec::Exec(exec) = &manifest.how else {
                let message = "the skill can't run on this worker";
                return RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, message));
            };
            match self.command(exec, &invocation) {
                Ok((command, given)) => {
                    invocation.trace.record_start("cold");
                    once(&self.services.launcher, command, invocation, given).await
                }
                Err(error) => RawOutput::NotStarted(error),
            }
        }
        .boxed()
    }
}

/// Fills the elements in the manifest with the call's arguments.
///
/// # Errors
/// Fails if a value looks like an option, can't be part of a command line, or is too long.
fn command_line(elements: &[Element], input: &[u8]) -> Result<Vec<String>, SkillError> {
    let literal = |it: &Element| if let Element::Literal(text) = it { Some(text.clone()) } else { None };
    if let Some(literals) = elements.iter().map(literal).collect() {
        return Ok(literals);
    }
    let mut filled = Vec::with_capacity(elements.len());
    let arguments: Map<String, Value> = serde_json::from_slice(input).map_err(not_an_object)?;
    let mut left = MAX_COMMAND_LINE_BYTES;
    let mut push = |text: String| -> Result<(), SkillError> {
        left = left.checked_sub(text.len() + 1).ok_or_else(too_long)?;
        filled.push(text);
        Ok(())
    };
    for element in elements {
        match element {
            Element::Literal(text) => push(text.clone())?,
            Element::Value { prefix, name, after_dashes } => match arguments.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::Array(items)) => {
                    for item in items {
                        push(one(prefix, name, item, *after_dashes)?)?;
                    }
                }
                Some(value) => push(one(prefix, name, value, *after_dashes)?)?,
            },
        }
    }
    Ok(filled)
}

fn too_long() -> SkillError {
    let message = format!("the arguments make a command line of more than {MAX_COMMAND_LINE_BYTES} bytes");
    SkillError::new(ErrorCode::InvalidArgument, message)
}

fn one(prefix: &str, name: &str, value: &Value, after_dashes: bool) -> Result<String, SkillError> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let refuse = |reason: &str| Err(SkillError::new(ErrorCode::InvalidArgument, format!("{name}: {reason}")));
    if text.contains('\0') {
        return refuse("must not contain a NUL character");
    }
    if prefix.is_empty() && !after_dashes && text.starts_with('-') {
        return refuse("must not begin with '-': the program would read it as an option");
    }
    Ok(format!("{prefix}{text}"))
}

/// Selects the input among the call's arguments. Numbers keep all their digits.
///
/// # Errors
/// Fails if the arguments can't be parsed.
fn stdin(given: &Stdin, input: &[u8]) -> Result<StdinContent, SkillError> {
    let name = match given {
        Stdin::Nothing => return Ok(StdinContent::Nothing),
        Stdin::Input => return Ok(StdinContent::Input),
        Stdin::Argument(name) => name,
    };
    let arguments: HashMap<String, &RawValue> = serde_json::from_slice(input).map_err(not_an_object)?;
    let Some(value) = arguments.get(name).map(|value| value.get()).filter(|value| *value != "null") else {
        return Ok(StdinContent::Nothing);
    };
    let text = match value.starts_with('"') {
        true => serde_json::from_str(value).map_err(not_an_object)?,
        false => value.to_owned(),
    };
    Ok(StdinContent::Text(text.into_bytes()))
}

fn not_an_object(error: serde_json::Error) -> SkillError {
    SkillError::new(ErrorCode::InvalidJson, format!("the arguments are not an object: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(prefix: &str, name: &str, after_dashes: bool) -> Element {
        Element::Value { prefix: prefix.to_owned(), name: name.to_owned(), after_dashes }
    }

    #[test]
    fn values_are_filled_in_and_absent_ones_left_out() {
        let elements = [Element::Literal("-l".to_owned()), value("--size=", "size", false), value("", "paths", false)];
        let filled = command_line(&elements, br#"{"size": 3, "paths": ["a b", "$(id)"]}"#).unwrap();
        assert_eq!(filled, ["-l", "--size=3", "a b", "$(id)"]);
        assert_eq!(command_line(&elements, br#"{"size": null}"#).unwrap(), ["-l"]);
    }

    #[test]
    fn no_value_becomes_an_option() {
        let error = command_line(&[value("", "path", false)], br#"{"path": "--exec=rm"}"#).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message.contains("option"), "{error:?}");
        let in_list = command_line(&[value("", "paths", false)], br#"{"paths": ["a", "-x"]}"#);
        assert!(in_list.is_err());
        assert_eq!(
            command_line(&[value("", "n", false)], br#"{"n": -5}"#).map_err(|it| it.code()),
            Err(ErrorCode::InvalidArgument)
        );
        assert_eq!(command_line(&[value("--path=", "path", false)], br#"{"path": "-x"}"#).unwrap(), ["--path=-x"]);
        assert_eq!(command_line(&[value("", "path", true)], br#"{"path": "-x"}"#).unwrap(), ["-x"]);
    }

    #[test]
    fn nul_and_overlong_arguments_are_refused() {
        assert!(command_line(&[value("", "a", false)], br#"{"a": "x\u0000y"}"#).is_err());
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(40_000));
        assert!(command_line(&[value("", "a", false)], long.as_bytes()).is_err());
        // Rejected at the first placeholder, because all of them would take gigabytes.
        let places = vec![value("", "a", false); 100_000];
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(4_000_000));
        assert!(command_line(&places, long.as_bytes()).is_err());
    }

    #[test]
    fn a_string_is_given_as_it_is_and_another_value_as_json() {
        let given = |input: &str| match stdin(&Stdin::Argument("x".to_owned()), input.as_bytes()).unwrap() {
            StdinContent::Text(text) => Some(String::from_utf8(text).unwrap()),
            StdinContent::Nothing => None,
            StdinContent::Input => panic!("{input}"),
        };
        assert_eq!(given(r#"{"x": "a\nb \u00e9\u0000"}"#).unwrap(), "a\nb é\0");
        assert_eq!(given(r#"{"x": {"n": 12345678901234567890123}}"#).unwrap(), r#"{"n": 12345678901234567890123}"#);
        assert_eq!(given(r#"{"x": ""}"#).unwrap(), "");
        assert_eq!((given(r#"{"x": null}"#), given(r#"{"y": 1}"#)), (None, None));
    }
}
