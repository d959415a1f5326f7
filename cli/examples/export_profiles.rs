//! Exports tools in every dialect and validates the schemas against profiles of what providers accept.
//!
//! ```text
//! cargo run --release -p openskill --example export_profiles -- PROFILES SKILLS FILE...
//! ```
//!
//! `PROFILES` is a folder of JSON Schema profiles in YAML (`openai_202602.yaml` and others), `SKILLS` a folder of manifests
//! whose toolsets are exported, and each `FILE` a tool list as returned by MCP's `tools/list`. Exits with 1 if any schema
//! does not match its profile.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jsonschema::Validator;
use openskill_gateway::arguments::{Definition, Rules as ArgumentRules};
use openskill_gateway::export::{Dialect, Exported, Tool, export};
use openskill_worker::manifest::{Manifest, Rules, Toolset};
use serde_json::{Value, json};

/// A tool to export.
struct ToolSource {
    name: String,
    description: String,
    schema: Value,
}

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [profiles, skills, files @ ..] = &arguments[..] else {
        eprintln!("usage: export_profiles PROFILES SKILLS FILE...");
        return ExitCode::from(2);
    };
    match run(profiles, skills, files) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(profiles: &Path, skills: &Path, files: &[PathBuf]) -> Result<usize, String> {
    let profile = |name: &str| read_profile(&profiles.join(name));
    let (openai, minimal) = (profile("openai_202602.yaml")?, profile("minimal_202602.yaml")?);
    let (gemini, gemini_old) = (profile("gemini_202602.yaml")?, profile("gemini_202503.yaml")?);
    let mut lists = vec![("toolsets of the skills folder".to_owned(), toolsets(skills)?)];
    for file in files {
        lists.push((file.file_name().unwrap_or_default().to_string_lossy().into_owned(), mcp_list(file)?));
    }
    let mut failures = 0;
    println!("{:<32}{:>6}{:>9}{:>9}", "list", "tools", "schemas", "invalid");
    for (name, tools) in &lists {
        let (mut checked, mut invalid) = (0, 0);
        for dialect in Dialect::ALL {
            let profiles_of_dialect: &[&Validator] = match dialect {
                Dialect::OpenAi | Dialect::OpenAiResponses => &[&openai],
                Dialect::Gemini => &[&gemini, &gemini_old],
                Dialect::DashScope => &[&openai, &minimal, &gemini],
                Dialect::Anthropic | Dialect::Mcp => &[],
            };
            for strict in [false, true] {
                let exported = export(&to_export_tools(tools), dialect, strict);
                let (count, wrong) = check(&exported, dialect, profiles_of_dialect);
                checked += count;
                invalid += wrong;
            }
        }
        println!("{name:<32}{:>6}{checked:>9}{invalid:>9}", tools.len());
        failures += invalid;
    }
    Ok(failures)
}

fn to_export_tools(tools: &[ToolSource]) -> Vec<Tool<'_>> {
    tools
        .iter()
        .map(|it| Tool {
            name: &it.name,
            title: "",
            icons: &[],
            read_only: false,
            description: &it.description,
            schema: Some(&it.schema),
            output_schema_json: "",
            destructive: false,
            idempotent: false,
            refuses_repairs: false,
        })
        .collect()
}

/// Counts the schemas that were checked, and those that are invalid.
fn check(exported: &Exported, dialect: Dialect, profiles: &[&Validator]) -> (usize, usize) {
    let (mut count, mut invalid) = (0, 0);
    for text in &exported.tools {
        let Ok(tool) = serde_json::from_str::<Value>(text) else {
            println!("{dialect:?}: invalid JSON: {text}");
            invalid += 1;
            continue;
        };
        let pointer = match dialect {
            Dialect::OpenAi | Dialect::DashScope => "/function/parameters",
            Dialect::OpenAiResponses | Dialect::Gemini => "/parameters",
            Dialect::Anthropic => "/input_schema",
            Dialect::Mcp => "/inputSchema",
        };
        let Some(schema) = tool.pointer(pointer) else { continue };
        count += 1;
        let mut problems: Vec<String> = Vec::new();
        if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
            problems.push(error.to_string());
        }
        for profile in profiles {
            problems.extend(profile.iter_errors(schema).map(|it| format!("{} at {}", it, it.instance_path())));
        }
        let strict = tool.get("strict").or_else(|| tool.pointer("/function/strict")) == Some(&Value::Bool(true));
        if strict {
            problems.extend(strict_problems(schema, dialect));
        }
        if !problems.is_empty() {
            println!("{dialect:?}: {tool}\n    {}", problems.join("\n    "));
            invalid += 1;
        }
    }
    (count, invalid)
}

/// What the profiles do not check: OpenAI requires every property, Anthropic accepts no bounds, and both require closed
/// objects.
fn strict_problems(schema: &Value, dialect: Dialect) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let required = schema["required"].as_array().map_or(0, Vec::len);
        if dialect != Dialect::Anthropic && required != properties.len() {
            problems.push("not every property is required".to_owned());
        }
        if schema["additionalProperties"] != json!(false) {
            problems.push("an object is not closed".to_owned());
        }
        problems.extend(properties.values().flat_map(|it| strict_problems(it, dialect)));
    }
    if dialect == Dialect::Anthropic {
        let refused =
            ["minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "pattern", "uniqueItems"];
        problems
            .extend(refused.iter().filter(|it| schema.get(**it).is_some()).map(|it| format!("{it} is not accepted")));
    }
    let inner =
        schema.get("items").into_iter().chain(schema.get("anyOf").and_then(Value::as_array).into_iter().flatten());
    problems.extend(inner.flat_map(|it| strict_problems(it, dialect)));
    problems
}

fn read_profile(file: &Path) -> Result<Validator, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let schema: Value = serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    jsonschema::validator_for(&schema).map_err(|error| format!("{}: {error}", file.display()))
}

/// The skills of every toolset in a skill folder.
fn toolsets(skills: &Path) -> Result<Vec<ToolSource>, String> {
    let mut tools = Vec::new();
    for folder in list_files(skills)? {
        let file = folder.join("toolset.yaml");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let toolset = Toolset::parse(&file, &text).map_err(|error| error.to_string())?;
        for file in
            list_files(&folder)?.into_iter().filter(|it| it.file_name().is_some_and(|name| name != "toolset.yaml"))
        {
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let rules = Rules { allowed_root: Path::new("/"), toolset: Some(&toolset) };
            let manifest = Manifest::parse(&file, &text, rules).map_err(|error| error.to_string())?;
            let schema = gateway_schema(&manifest.input_schema.unwrap_or_else(|| json!({"type": "object"})))?;
            tools.push(ToolSource { name: manifest.id, description: manifest.description, schema });
        }
    }
    Ok(tools)
}

/// The schema that the gateway validates against and exports.
fn gateway_schema(schema: &Value) -> Result<Value, String> {
    let definition =
        Definition::compile(&schema.to_string(), ArgumentRules::default(), &[]).map_err(|it| it.to_string())?;
    Ok(definition.schema().cloned().unwrap_or_default())
}

fn list_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

fn mcp_list(file: &Path) -> Result<Vec<ToolSource>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let list: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let tools = list["tools"].as_array().ok_or_else(|| format!("{}: no tools", file.display()))?;
    let source = |tool: &Value| {
        let (name, description) = (text(tool, "name"), text(tool, "description"));
        Ok(ToolSource { name, description, schema: gateway_schema(&tool["inputSchema"])? })
    };
    tools.iter().map(source).collect()
}
