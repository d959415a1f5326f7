//! Contexts: named gateways, with the settings to reach each. They are in a file in the user's home directory.
//!
//! A context is used as a whole: it replaces all settings of the gateway that come from the environment and files, so that
//! credentials of one gateway are never sent to another. Flags take precedence.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use openskill_identity::file;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::exit::Failure;
use crate::settings::{Origin, RawSettings, paths};

/// The keys of a context in the file, each with the name of its setting.
pub(crate) const KEYS: [(&str, &str); 7] = [
    ("url", "OPENSKILL_HTTP_BASE_URL"),
    ("ca", "OPENSKILL_CA"),
    ("cert", "OPENSKILL_CLIENT_CERT"),
    ("key", "OPENSKILL_CLIENT_KEY"),
    ("token", "OPENSKILL_TOKEN"),
    ("token_file", "OPENSKILL_TOKEN_FILE"),
    ("headers", "OPENSKILL_HEADERS"),
];

/// The maximum number of contexts.
const MAX_CONTEXTS: usize = 100;

/// The maximum length of a context's name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Setting names and values, for the settings that the context contains.
pub(crate) type ContextValues = Vec<(&'static str, String)>;

#[derive(Debug)]
pub(crate) struct Contexts {
    path: PathBuf,
    document: DocumentMut,
}

/// Applies the context that the settings name. If they name none, applies the current context, unless the settings
/// contain a gateway URL: credentials of a context are sent only to its gateway, unless flags override this.
///
/// # Errors
/// The context is missing, or the context file is unusable.
pub(crate) fn apply(raw: &mut RawSettings) -> Result<(), Failure> {
    let wanted = Some(raw.value("OPENSKILL_CONTEXT").to_owned()).filter(|it| !it.is_empty());
    if wanted.is_none() && raw.origin("OPENSKILL_HTTP_BASE_URL") != Origin::Default {
        return Ok(());
    }
    let contexts = match (Contexts::open(), &wanted) {
        (Ok(contexts), _) => contexts,
        // Without a home directory, the context list is empty.
        (Err(_), None) if std::env::var_os("HOME").is_none() => return Ok(()),
        (Err(failure), _) => return Err(failure),
    };
    let Some(name) = wanted.or_else(|| contexts.current().map(str::to_owned)) else { return Ok(()) };
    raw.use_context(&contexts.values(&name)?, &KEYS.map(|(_, setting)| setting));
    Ok(())
}

impl Contexts {
    /// Reads the context file of this user. A missing file means an empty list.
    ///
    /// # Errors
    /// There is no home directory, or the file is unreadable, readable by other users, or malformed.
    pub(crate) fn open() -> Result<Self, Failure> {
        let config = paths::user_folder("XDG_CONFIG_HOME", ".config").ok_or_else(|| {
            Failure::Usage("there is no directory for contexts: set HOME or XDG_CONFIG_HOME".to_owned())
        })?;
        Self::open_at(config.join("openskill/contexts.toml"))
    }

    fn open_at(path: PathBuf) -> Result<Self, Failure> {
        let failed = |reason: &str| Failure::Usage(format!("'{}': {reason}", path.display()));
        if !path.exists() {
            return Ok(Self { path, document: DocumentMut::new() });
        }
        // The file may contain tokens, so other users must not be able to read it.
        let text = file::text(&path).map_err(|error| failed(&error.to_string()))?;
        // The error does not quote the line, which may contain a token.
        let document = text.parse().map_err(|_| failed("it is not valid TOML"))?;
        let contexts = Self { path, document };
        contexts.check()?;
        Ok(contexts)
    }

    /// Reports unknown keys and values of the wrong type.
    fn check(&self) -> Result<(), Failure> {
        let failed = |reason: String| Err(Failure::Usage(format!("'{}': {reason}", self.path.display())));
        for (key, item) in self.document.iter() {
            match key {
                "current" if item.is_str() => {}
                "contexts" if item.is_table() => {}
                _ => return failed(format!("'{key}' is not a known key: the keys are current and [contexts.NAME]")),
            }
        }
        for name in self.names() {
            check_name(&name)?;
            let Some(table) = self.table(&name) else { return failed(format!("write [contexts.{name}] as a table")) };
            if let Some((key, _)) = table.iter().find(|(key, item)| !is_key(key) || !item.is_str()) {
                let keys = KEYS.map(|(key, _)| key).join(", ");
                return failed(format!("context '{name}': '{key}' must be one of {keys} and have a string value"));
            }
        }
        Ok(())
    }

    /// Returns the names of all contexts, in the order of the file.
    pub(crate) fn names(&self) -> Vec<String> {
        let tables = self.document.get("contexts").and_then(Item::as_table);
        tables.map(|it| it.iter().map(|(name, _)| name.to_owned()).collect()).unwrap_or_default()
    }

    /// Returns the name of the current context.
    pub(crate) fn current(&self) -> Option<&str> {
        self.document.get("current").and_then(Item::as_str)
    }

    /// Returns the settings of a context.
    ///
    /// # Errors
    /// No context has that name.
    pub(crate) fn values(&self, name: &str) -> Result<ContextValues, Failure> {
        let table = self.table(name).ok_or_else(|| self.unknown(name))?;
        let read = |(key, setting)| Some((setting, table.get(key)?.as_str()?.to_owned()));
        Ok(KEYS.into_iter().filter_map(read).collect())
    }

    /// Creates or changes a context. An empty value removes its key.
    ///
    /// # Errors
    /// The name is invalid, the new context has no URL, or there are too many contexts.
    pub(crate) fn set(&mut self, name: &str, values: &ContextValues) -> Result<(), Failure> {
        check_name(name)?;
        if self.table(name).is_none() && self.names().len() >= MAX_CONTEXTS {
            return Err(Failure::Usage(format!("there are already {MAX_CONTEXTS} contexts: remove one first")));
        }
        let contexts = self.document.entry("contexts").or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let contexts = contexts.as_table_mut().ok_or_else(|| Failure::Usage("contexts is not a table".to_owned()))?;
        let context = contexts.entry(name).or_insert_with(|| Item::Table(Table::new()));
        let context = context.as_table_mut().ok_or_else(|| Failure::Usage("a context is not a table".to_owned()))?;
        for (setting, text) in values {
            let Some((key, _)) = KEYS.iter().find(|(_, of)| of == setting) else { continue };
            if text.is_empty() {
                context.remove(key);
            } else {
                context.insert(key, value(text));
            }
        }
        match context.contains_key("url") {
            true => Ok(()),
            false => Err(Failure::Usage(format!("context '{name}' has no URL: set it with --url"))),
        }
    }

    /// Makes a context the current one. `None` unsets the current context.
    ///
    /// # Errors
    /// No context has that name.
    pub(crate) fn select(&mut self, name: Option<&str>) -> Result<(), Failure> {
        let Some(name) = name else {
            self.document.remove("current");
            return Ok(());
        };
        if self.table(name).is_none() {
            return Err(self.unknown(name));
        }
        self.document.insert("current", value(name));
        Ok(())
    }

    /// Removes a context. Unsets the current context if this was it.
    ///
    /// # Errors
    /// No context has that name.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        let removed = self.document.get_mut("contexts").and_then(Item::as_table_mut).and_then(|it| it.remove(name));
        if removed.is_none() {
            return Err(self.unknown(name));
        }
        if self.current() == Some(name) {
            self.document.remove("current");
        }
        Ok(())
    }

    /// Replaces the file atomically. Only its owner may read it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn store(&self) -> Result<(), Failure> {
        let what = format!("writing {}", self.path.display());
        write(&self.path, &self.document.to_string()).map_err(Failure::system(what))
    }

    fn table(&self, name: &str) -> Option<&Table> {
        self.document.get("contexts")?.as_table()?.get(name)?.as_table()
    }

    fn unknown(&self, name: &str) -> Failure {
        let names = self.names();
        let known = if names.is_empty() { "none exist yet".to_owned() } else { names.join(", ") };
        Failure::Usage(format!("there is no context '{name}': {known}; `openskill context set` creates one"))
    }
}

fn is_key(text: &str) -> bool {
    KEYS.iter().any(|(key, _)| *key == text)
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_valid = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
    let starts_well = name.starts_with(|it: char| it.is_ascii_alphanumeric());
    if starts_well && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_valid) {
        return Ok(());
    }
    let rule = "letters, digits, '.', '_' and '-', and must begin with a letter or digit";
    Err(Failure::Usage(format!("'{name}': a context name must have at most {MAX_NAME_BYTES} {rule}")))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    file::replace(path, text.as_bytes(), 0o600, |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("openskill-contexts-{}-{name}", std::process::id())))
        }

        fn open(&self) -> Result<Contexts, Failure> {
            Contexts::open_at(self.0.join("contexts.toml"))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn url(text: &str) -> ContextValues {
        vec![("OPENSKILL_HTTP_BASE_URL", text.to_owned())]
    }

    #[test]
    fn a_context_is_made_used_changed_and_removed_in_a_file_of_its_owner() {
        let scratch = Scratch::new("life");
        let mut contexts = scratch.open().unwrap();
        contexts.set("staging", &url("https://a")).unwrap();
        contexts.select(Some("staging")).unwrap();
        contexts.store().unwrap();
        let mode = scratch.0.join("contexts.toml").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut contexts = scratch.open().unwrap();
        assert_eq!((contexts.current(), contexts.values("staging").unwrap()), (Some("staging"), url("https://a")));
        contexts.set("staging", &vec![("OPENSKILL_TOKEN", "t".to_owned())]).unwrap();
        assert_eq!(contexts.values("staging").unwrap().len(), 2);
        contexts.set("staging", &vec![("OPENSKILL_TOKEN", String::new())]).unwrap();
        assert_eq!(contexts.values("staging").unwrap(), url("https://a"));
        contexts.remove("staging").unwrap();
        assert_eq!((contexts.current(), contexts.names().len()), (None, 0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let scratch = Scratch::new("refused");
        let mut contexts = scratch.open().unwrap();
        assert!(contexts.set("staging", &vec![("OPENSKILL_TOKEN", "t".to_owned())]).is_err(), "it has no URL");
        assert!(contexts.set("a b", &url("https://a")).is_err());
        assert!(contexts.select(Some("missing")).is_err() && contexts.remove("missing").is_err());
    }

    #[test]
    fn a_file_with_unknown_keys_or_that_others_may_read_is_refused() {
        let scratch = Scratch::new("file");
        let path = scratch.0.join("contexts.toml");
        for (text, mode, word) in [
            ("[contexts.a]\nurl = 'x'\nurll = 'y'\n", 0o600, "urll"),
            ("curent = 'a'\n", 0o600, "curent"),
            ("[contexts.a]\ntoken = osk_secret\n", 0o600, "TOML"),
            ("[contexts.a]\nurl = 'x'\n", 0o644, "644"),
        ] {
            write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let reason = scratch.open().unwrap_err().to_string();
            assert!(reason.contains(word) && !reason.contains("osk_"), "{reason}");
        }
    }
}
