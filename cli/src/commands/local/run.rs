//! `openskill run`: calls the skill of one file on this machine, as a worker would.

use std::path::PathBuf;
use std::time::Duration;

use openskill_gateway::arguments::{Definition, Policy, Prepared, Rules};
use openskill_proto::v1::{ExecuteResult, Meta, SkillResult, skill_result::Output};
use openskill_worker::local_call::{self, LocalCallError};
use openskill_worker::manifest::Manifest;
use serde_json::Value;

use crate::args::RunArgs;
use crate::commands::input::json_or_file;
use crate::commands::invoke::{arguments, print_data};
use crate::exit::Failure;
use crate::runtime::block_on;
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::print_err;

pub(super) fn run(args: &RunArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let file = std::path::absolute(&args.file).map_err(Failure::system("finding the file"))?;
    if !file.is_file() {
        return Err(Failure::Usage(format!("there is no file '{}'", args.file.display())));
    }
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
    let manifest = local_call::read(&file, &config.allowed_root).map_err(|error| Failure::Usage(error.to_string()))?;
    let prepared = prepare(args, &manifest)?;
    let own = manifest.timeout_ms.map(|it| Duration::from_millis(it.into()));
    let timeout = match args.timeout_ms {
        0 => own.unwrap_or(settings.gateway.default_timeout),
        given => Duration::from_millis(given.into()),
    };
    block_on(async {
        let input = prepared.text.into_owned();
        let mut result = local_call::call(config, manifest, input, timeout).await.map_err(|error| match error {
            LocalCallError::System(source) => Failure::system("setting up the sandbox")(source),
            error => Failure::printed(&error),
        })?;
        let warnings = prepared.warning.into_iter().chain(std::mem::take(&mut result.warnings)).collect();
        let repairs = prepared.repairs.into_iter().map(Into::into).collect();
        show(result, Meta { repairs, defaults: prepared.defaults, warnings, ..Meta::default() })
    })
}

/// Reads the arguments, and validates and repairs them as a gateway does.
fn prepare(args: &RunArgs, manifest: &Manifest) -> Result<Prepared<'static>, Failure> {
    let schema = manifest.input_schema.as_ref();
    let text = match (&args.json, &args.arguments[..]) {
        (Some(text), _) => json_or_file(text)?,
        (None, [text]) if text.starts_with(['{', '@']) || text == "-" => json_or_file(text)?,
        (None, pairs) => arguments::object(pairs, schema.unwrap_or(&Value::Null))?,
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
        let name = format!("openskill-run-{}", std::process::id());
        let create = || {
            let folder = std::env::temp_dir().canonicalize()?.join(name);
            // Fails if another user made the directory.
            std::fs::create_dir(&folder)?;
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
