//! `openskill keys`: edits the key file. It needs no gateway: a running gateway picks up the change within a
//! second.

use std::path::Path;

use openskill_identity::edit::{self, NewPolicy};
use openskill_identity::file;
use openskill_identity::key_file::StoredKey;
use openskill_identity::policy::{NameSet, Policy};
use openskill_proto::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::args::{CreateKey, KeysCommand, ListKeys, RevokeKey};
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::settings::Settings;
use crate::terminal::{print_err, print_out};

/// A row of the list: a key, or a principal without keys.
struct KeyRow {
    principal: String,
    policy: Policy,
    key: Option<StoredKey>,
}

impl KeyRow {
    fn status(&self) -> &'static str {
        match &self.key {
            None => "no key",
            Some(key) if key.is_expired(Timestamp::now()) => "expired",
            Some(_) => "valid",
        }
    }

    fn id(&self) -> String {
        self.key.as_ref().map(|key| key.id.to_string()).unwrap_or_default()
    }

    fn created_at(&self) -> String {
        format_time(self.key.as_ref().and_then(|key| key.created))
    }

    fn expires_at(&self) -> String {
        format_time(self.key.as_ref().and_then(|key| key.expires))
    }
}

fn format_time(time: Option<Timestamp>) -> String {
    time.map(|time| time.to_string().replace(".000000", "")).unwrap_or_default()
}

fn names(names: &NameSet) -> String {
    match names {
        NameSet::All => "*".to_owned(),
        NameSet::Only(names) => names.iter().map(String::as_str).collect::<Vec<_>>().join(","),
    }
}

impl ListItem for KeyRow {
    const KIND: &'static str = "key";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("PRINCIPAL", |it| it.principal.clone()),
        Column::new("KEY", |it| or_dash(&it.id())),
        Column::new("STATUS", |it| it.status().to_owned()),
        Column::wide("CREATED", |it| or_dash(&it.created_at())),
        Column::optional("EXPIRES", |it| or_dash(&it.expires_at())),
        Column::new("ADMIN", |it| if it.policy.admin { "yes" } else { "no" }.to_owned()),
        Column::optional("TOOLSETS", |it| or_dash(&names(&it.policy.toolsets))),
        Column::text("SKILLS", |it| or_dash(&names(&it.policy.skills))),
    ];

    fn value(&self) -> Value {
        json!({
            "principal": self.principal,
            "key": self.id(),
            "status": self.status(),
            "created": self.created_at(),
            "expires": self.expires_at(),
            "admin": self.policy.admin,
            "toolsets": names(&self.policy.toolsets),
            "skills": names(&self.policy.skills),
        })
    }
}

pub(super) fn run(command: KeysCommand, settings: &Settings) -> Result<(), Failure> {
    let missing = || Failure::Usage("no key file is set: use --file FILE or OPENSKILL_KEYS".to_owned());
    let file = settings.access.keys.clone().ok_or_else(missing)?;
    match command {
        KeysCommand::Create(args) => create(args, &file),
        KeysCommand::List(args) => list_keys(&args, &file),
        KeysCommand::Revoke(args) => revoke(&args, &file),
    }
}

fn create(args: CreateKey, file: &Path) -> Result<(), Failure> {
    let policy = NewPolicy {
        skills: args.skills,
        toolsets: args.toolsets,
        destructive: args.destructive.then_some(true),
        interactive: args.not_interactive.then_some(false),
        admin: args.admin.then_some(true),
        rate: args.rate,
        burst: args.burst,
        in_flight: args.in_flight,
        bytes: args.bytes,
        sessions: args.sessions,
    };
    let key = edit::create(file, &args.principal, &policy, args.expires).map_err(|error| file_failure(file, &error))?;
    // Only the key goes to stdout, so that scripts can read it.
    print_out(&format!("{}\n", key.text));
    print_err(&format!("key {} of '{}': this is the only time it is shown\n", key.id, args.principal));
    Ok(())
}

fn list_keys(args: &ListKeys, file: &Path) -> Result<(), Failure> {
    let roll = file::read(file).map_err(|error| file_failure(file, &error))?;
    let rows = roll.principals.into_iter().flat_map(|(principal, it)| {
        let keys: Vec<_> = if it.keys.is_empty() { vec![None] } else { it.keys.into_iter().map(Some).collect() };
        keys.into_iter().map(move |key| KeyRow { principal: principal.clone(), policy: it.policy.clone(), key })
    });
    print_list(&rows.collect::<Vec<_>>(), args.output.format());
    Ok(())
}

fn revoke(args: &RevokeKey, file: &Path) -> Result<(), Failure> {
    let principal = edit::revoke(file, args.id).map_err(|error| file_failure(file, &error))?;
    print_out(&format!("revoked key {} of '{principal}'\n", args.id));
    Ok(())
}

fn file_failure(file: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::Usage(format!("'{}': {error}", file.display()))
}
