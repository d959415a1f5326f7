//! `openskill context`: manages named sets of connection settings.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::{ClientArgs, ContextArgs, ContextCommand};
use crate::contexts::{ContextValues, Contexts};
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::settings::{RawSettings, Settings, mask_setting, names};
use crate::terminal::print_out;

struct ContextRow {
    name: String,
    is_current: bool,
    values: ContextValues,
}

impl ContextRow {
    fn value(&self, setting: &str) -> String {
        let found = self.values.iter().find(|(name, _)| *name == setting);
        found.map(|(name, value)| mask_setting(name, value)).unwrap_or_default()
    }

    /// Lists the kinds of credentials in the context, without the secrets.
    fn credentials(&self) -> String {
        let has = |setting| !self.value(setting).is_empty();
        let kinds = [("token", has(names::TOKEN) || has(names::TOKEN_FILE)), ("certificate", has(names::CLIENT_CERT))];
        kinds.into_iter().filter_map(|(kind, is_there)| is_there.then_some(kind)).collect::<Vec<_>>().join(",")
    }
}

impl ListItem for ContextRow {
    const KIND: &'static str = "context";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("CURRENT", |it| if it.is_current { "*" } else { "" }.to_owned()),
        Column::new("NAME", |it| it.name.clone()),
        Column::new("URL", |it| it.value(names::HTTP_BASE_URL)),
        Column::new("CREDENTIALS", |it| or_dash(&it.credentials())),
        Column::wide("CA", |it| or_dash(&it.value(names::CA))),
        Column::wide("HEADERS", |it| or_dash(&it.value(names::HEADERS))),
    ];

    fn value(&self) -> Value {
        json!({
            "name": self.name,
            "current": self.is_current,
            "url": self.value(names::HTTP_BASE_URL),
            "ca": self.value(names::CA),
            "cert": self.value(names::CLIENT_CERT),
            "key": self.value(names::CLIENT_KEY),
            "token": self.value(names::TOKEN),
            "token_file": self.value(names::TOKEN_FILE),
            "headers": self.value(names::HEADERS),
        })
    }
}

pub(super) fn run(args: ContextArgs) -> Result<ExitCode, Failure> {
    let mut contexts = Contexts::open()?;
    match args.command {
        ContextCommand::List(args) => print_list(&rows(&contexts)?, args.output.format()),
        ContextCommand::Use(args) => {
            contexts.select(args.name.as_deref())?;
            contexts.store()?;
            print_out(&match args.name {
                Some(name) => format!("client commands now use the context '{name}'\n"),
                None => "client commands now use no context\n".to_owned(),
            });
        }
        ContextCommand::Set(args) => {
            contexts.set(&args.name, &values(&args.client)?)?;
            let values = contexts.values(&args.name)?;
            // Reject invalid settings before storing them.
            Settings::resolve(&RawSettings::from_context(&values))?;
            contexts.store()?;
            print_out(&format!("set the context '{}'\n", args.name));
        }
        ContextCommand::Remove(args) => {
            contexts.remove(&args.name)?;
            contexts.store()?;
            print_out(&format!("removed the context '{}'\n", args.name));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(contexts: &Contexts) -> Result<Vec<ContextRow>, Failure> {
    let row = |name: String| {
        let (is_current, values) = (contexts.current() == Some(name.as_str()), contexts.values(&name)?);
        Ok(ContextRow { name, is_current, values })
    };
    contexts.names().into_iter().map(row).collect()
}

/// Returns the settings that the flags set. Paths become absolute, since the context can be used from any
/// directory.
fn values(client: &ClientArgs) -> Result<ContextValues, Failure> {
    let here = std::env::current_dir().map_err(Failure::system("finding the current directory"))?;
    let whole = |file: &String| {
        if file.is_empty() { String::new() } else { here.join(file).to_string_lossy().into_owned() }
    };
    let ClientArgs { url, context: _, token, token_file, ca, cert, key, headers } = client;
    let mut values = ContextValues::new();
    let files =
        [(names::TOKEN_FILE, token_file), (names::CA, ca), (names::CLIENT_CERT, cert), (names::CLIENT_KEY, key)];
    values.extend(
        [(names::HTTP_BASE_URL, url), (names::TOKEN, token)]
            .into_iter()
            .filter_map(|(name, text)| Some((name, text.clone()?))),
    );
    values.extend(files.into_iter().filter_map(|(name, file)| Some((name, whole(file.as_ref()?)))));
    // A token replaces a token file, and vice versa.
    match (token.is_some(), token_file.is_some()) {
        (true, false) => values.push((names::TOKEN_FILE, String::new())),
        (false, true) => values.push((names::TOKEN, String::new())),
        _ => {}
    }
    if !headers.is_empty() {
        values.push((names::HEADERS, headers.join(",")));
    }
    Ok(values)
}
