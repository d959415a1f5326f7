//! `openskill run`: calls the skill of one file on this machine, as a worker would.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_gateway::arguments::{Definition, Policy, Prepared, Rules};
use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::{ExecuteResult, Meta, SkillResult, skill_result::Output};
use openskill_worker::local_call::{self, LocalCallError};
use openskill_worker::manifest::Manifest;
use serde_json::Value;

use crate::args::RunArgs;
use crate::commands::input::json_or_file;
use crate::commands::invoke::{arguments, print_data};
use crate::exit::Failure;
use crate::runtime::single_threaded;
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::print_err;

pub(super) fn run(args: &RunArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    // `FILE#NAME` selects a function, unless a file has this name.
    let (file, function) = match args.file.to_str().and_then(|it| it.rsplit_once('#')) {
        Some((file, name)) if !args.file.exists() => (Path::new(file), Some(name)),
        _ => (args.file.as_path(), None),
    };
    let file = std::path::absolute(file).map_err(Failure::system("finding the file"))?;
    if !file.is_file() {
        return Err(Failure::Usage(format!("there is no file '{}'", file.display())));
    }
    // A signal ends the program while it waits for stdin, so there is no directory to remove yet.
    let object = object(args)?;
    let (root, _temporary) = match settings.worker.root_outside_project(raw)? {
        Some(root) => (root, None),
        None => {
            let made = TemporaryRoot::create()?;
            (made.path(), Some(made))
        }
    };
    let mut config = serve::worker::config_with_root(settings, raw, root)?;
    config.packages.progress = |step| print_err(&format!("{step}\n"));
    config.show_stderr = Some(|text| print_err(&format!("{text}\n")));
    let manifest = local_call::read(&file, function, &config).map_err(|error| Failure::Usage(error.to_string()))?;
    let prepared = prepare(args, object, &manifest)?;
    let own = manifest.timeout_ms.map(|it| Duration::from_millis(it.into()));
    let timeout = match args.timeout_ms {
        0 => own.unwrap_or(settings.gateway.default_timeout),
        given => Duration::from_millis(given.into()),
    };
    let runtime = single_threaded()?;
    let input = prepared.text.into_owned();
    let called = runtime.block_on(async {
        tokio::select! {
            // The first to begin, before anything of the call does.
            biased;
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
            called = local_call::call(config, manifest, input, timeout) => called.map_err(|error| match error {
                LocalCallError::System(source) => Failure::system("setting up the sandbox")(source),
                error => Failure::printed(&error),
            }),
        }
    });
    // Does not wait for an environment that is being built.
    runtime.shutdown_background();
    let mut result = called?;
    let warnings = prepared.warning.into_iter().chain(std::mem::take(&mut result.warnings)).collect();
    let repairs = prepared.repairs.into_iter().map(Into::into).collect();
    show(result, Meta { repairs, defaults: prepared.defaults, warnings, ..Meta::default() })
}

/// Reads the arguments that are given as one object, perhaps in a file or on stdin.
fn object(args: &RunArgs) -> Result<Option<String>, Failure> {
    match (&args.json, &args.arguments[..]) {
        (Some(text), _) => json_or_file(text).map(Some),
        (None, [text]) if text.starts_with(['{', '@']) || text == "-" => json_or_file(text).map(Some),
        (None, _) => Ok(None),
    }
}

/// Validates and repairs the arguments as a gateway does.
fn prepare(args: &RunArgs, object: Option<String>, manifest: &Manifest) -> Result<Prepared<'static>, Failure> {
    let schema = manifest.input_schema.as_ref();
    let text = match object {
        Some(text) => text,
        None => arguments::object(&args.arguments, schema.unwrap_or(&Value::Null))?,
    };
    let rules = Rules::from(manifest.argument_rules.clone());
    let definition = match schema {
        Some(schema) => Definition::compile(&schema.to_string(), rules, &[]).map_err(Failure::Usage)?,
        None => Definition::without_schema(rules),
    };
    let policy = if args.strict { Policy::Strict } else { Policy::Repair };
    match definition.prepare(&text, policy) {
        Ok(prepared) => Ok(Prepared { text: prepared.text.into_owned().into(), ..prepared }),
        Err(rejected) => {
            let refused = SkillResult { error: Some(rejected.into()), ..SkillResult::default() };
            Err(print_data(&refused).err().unwrap_or(Failure::Reported))
        }
    }
}

/// Prints the result as `openskill invoke` does. Fails if the call failed.
fn show(result: ExecuteResult, meta: Meta) -> Result<(), Failure> {
    for log in &result.logs {
        print_err(&format!("{}: {}\n", log.level, log.message));
    }
    for artifact in &result.artifacts {
        print_err(&format!("artifact: {} ({}, {} bytes)\n", artifact.name, artifact.media_type, artifact.size_bytes));
    }
    let data = String::from_utf8_lossy(&result.data_json).into_owned();
    let output = result.success.then_some(Output::DataJson(data));
    print_data(&SkillResult { output, error: result.error, meta: Some(meta), ..SkillResult::default() })
}

/// An empty allowed root for a file outside of a project. It is removed at the end.
struct TemporaryRoot(PathBuf);

impl TemporaryRoot {
    fn create() -> Result<Self, Failure> {
        let name = format!("openskill-run-{}", hex(&random_id::<8>()));
        // The skills of the superuser run as another user.
        let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
        let create = || {
            let folder = std::env::temp_dir().canonicalize()?.join(name);
            DirBuilder::new().mode(mode).create(&folder)?;
            let made = Self(folder);
            std::fs::create_dir(made.path())?;
            Ok(made)
        };
        create().map_err(Failure::system("creating a temporary allowed root"))
    }

    fn path(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for TemporaryRoot {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
