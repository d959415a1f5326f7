//! `openskill context`: manages named sets of connection settings.

use serde_json::{Value, json};

use crate::args::{ClientArgs, ContextCommand};
use crate::contexts::{ContextValues, Contexts, KEYS};
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::settings::{RawSettings, Settings, mask_setting};
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
        let token = has("OPENSKILL_TOKEN") || has("OPENSKILL_TOKEN_FILE");
        let kinds = [("token", token), ("certificate", has("OPENSKILL_CLIENT_CERT"))];
        kinds.into_iter().filter_map(|(kind, is_there)| is_there.then_some(kind)).collect::<Vec<_>>().join(",")
    }
}

impl ListItem for ContextRow {
    const KIND: &'static str = "context";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("CURRENT", |it| if it.is_current { "*" } else { "" }.to_owned()),
        Column::new("NAME", |it| it.name.clone()),
        Column::new("URL", |it| it.value("OPENSKILL_HTTP_BASE_URL")),
        Column::optional("CREDENTIALS", |it| or_dash(&it.credentials())),
        Column::wide("CA", |it| or_dash(&it.value("OPENSKILL_CA"))),
        Column::wide("HEADERS", |it| or_dash(&it.value("OPENSKILL_HEADERS"))),
    ];

    fn value(&self) -> Value {
        json!({
            "name": self.name,
            "current": self.is_current,
            "url": self.value("OPENSKILL_HTTP_BASE_URL"),
            "ca": self.value("OPENSKILL_CA"),
            "cert": self.value("OPENSKILL_CLIENT_CERT"),
            "key": self.value("OPENSKILL_CLIENT_KEY"),
            "token": self.value("OPENSKILL_TOKEN"),
            "token_file": self.value("OPENSKILL_TOKEN_FILE"),
            "headers": self.value("OPENSKILL_HEADERS"),
        })
    }
}

pub(super) fn run(command: ContextCommand) -> Result<(), Failure> {
    let mut contexts = Contexts::open()?;
    match command {
        ContextCommand::List { output } => print_list(&rows(&contexts)?, output.format()),
        ContextCommand::Use { name, none: _ } => {
            contexts.select(name.as_deref())?;
            contexts.store()?;
            print_out(&match name {
                Some(name) => format!("client commands now use the context '{name}'\n"),
                None => "client commands now use no context\n".to_owned(),
            });
        }
        ContextCommand::Set { name, client } => {
            contexts.set(&name, &values(&client)?)?;
            let values = contexts.values(&name)?;
            // Reject invalid settings before storing them.
            let mut raw = RawSettings::defaults();
            raw.use_context(&values, &KEYS.map(|(_, setting)| setting));
            Settings::resolve(&raw)?;
            contexts.store()?;
            print_out(&format!("set the context '{name}'\n"));
        }
        ContextCommand::Remove { name } => {
            contexts.remove(&name)?;
            contexts.store()?;
            print_out(&format!("removed the context '{name}'\n"));
        }
    }
    Ok(())
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
    let files = ["OPENSKILL_TOKEN_FILE", "OPENSKILL_CA", "OPENSKILL_CLIENT_CERT", "OPENSKILL_CLIENT_KEY"];
    let mut values = client.overrides();
    for (_, file) in values.iter_mut().filter(|(name, text)| files.contains(name) && !text.is_empty()) {
        *file = here.join(&*file).to_string_lossy().into_owned();
    }
    // A token replaces a token file, and vice versa.
    match (client.token.is_some(), client.token_file.is_some()) {
        (true, false) => values.push(("OPENSKILL_TOKEN_FILE", String::new())),
        (false, true) => values.push(("OPENSKILL_TOKEN", String::new())),
        _ => {}
    }
    Ok(values)
}
