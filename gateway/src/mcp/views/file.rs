//! The file of views. Strict: unknown fields are errors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use openskill_identity::file::shared_text;
use serde::Deserialize;

use super::{CALL_READ_ONLY_TOOL, CALL_TOOL, Contents, ListMode, SEARCH_TOOLS, View, ViewsConfig};

/// The maximum number of views in a file, and of entries in each list of a view.
const MAX_VIEWS: usize = 256;
const MAX_ENTRIES: usize = 4096;

/// The maximum length of a view's name and of a tool's name, in bytes.
const MAX_NAME: usize = 64;
const MAX_TOOL_NAME: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    default: RawView,
    #[serde(default)]
    views: BTreeMap<String, RawView>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawView {
    skills: Option<BTreeSet<String>>,
    toolsets: Option<BTreeSet<String>>,
    read_only: bool,
    list: RawList,
    pinned: BTreeSet<String>,
    names: BTreeMap<String, String>,
    scopes: Vec<String>,
    write_scopes: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawList {
    #[default]
    All,
    Search,
}

impl ViewsConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// The file can't be read, other users may change it, or its content is invalid.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = shared_text(file).map_err(|error| error.to_string())?;
        Ok(Self { file: file.to_owned(), contents: Contents::parse(&text)? })
    }
}

impl Contents {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is invalid. The error describes what is wrong, and where.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let raw: RawFile = toml_edit::de::from_str(text).map_err(|error| {
            let line = error.span().and_then(|span| text.get(..span.start)).map_or(0, |it| it.matches('\n').count());
            format!("line {}: {}", line + 1, error.message())
        })?;
        if raw.views.len() > MAX_VIEWS {
            return Err(format!("there are more than {MAX_VIEWS} views"));
        }
        let named = raw.views.into_iter().map(|(name, raw)| {
            check_name(&name)?;
            let view = view(&name, raw).map_err(|reason| format!("view '{name}': {reason}"))?;
            Ok((name, view))
        });
        Ok(Self {
            named: named.collect::<Result<_, String>>()?,
            default: view("", raw.default).map_err(|reason| format!("[default]: {reason}"))?,
        })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"_-".contains(&it);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_inner) {
        return Err(format!("'{name}': a view name must have 1 to {MAX_NAME} characters of a-z, 0-9, '_' and '-'"));
    }
    Ok(())
}

fn view(name: &str, raw: RawView) -> Result<View, String> {
    let lists = [raw.skills.as_ref(), raw.toolsets.as_ref(), Some(&raw.pinned)];
    let longest = lists.into_iter().flatten().map(BTreeSet::len).max().unwrap_or_default();
    if longest.max(raw.names.len()) > MAX_ENTRIES {
        return Err(format!("a list has more than {MAX_ENTRIES} entries"));
    }
    let list = match raw.list {
        RawList::All => ListMode::All,
        RawList::Search => ListMode::Search,
    };
    let ids = ids(&raw.names, list)?;
    raw.scopes.iter().chain(&raw.write_scopes).try_for_each(|it| check_scope(it))?;
    let chosen = match (raw.skills, raw.toolsets) {
        (None, None) => None,
        (skills, toolsets) => Some((skills.unwrap_or_default(), toolsets.unwrap_or_default())),
    };
    Ok(View {
        name: name.to_owned(),
        chosen,
        is_read_only: raw.read_only,
        list,
        pinned: raw.pinned,
        names: raw.names.into_iter().collect(),
        ids,
        scopes: raw.scopes,
        write_scopes: raw.write_scopes,
    })
}

/// Maps tool names to skill ids.
fn ids(names: &BTreeMap<String, String>, list: ListMode) -> Result<HashMap<String, String>, String> {
    let mut ids = HashMap::new();
    for (id, name) in names {
        let is_valid = |it: char| it.is_ascii_alphanumeric() || "_-.".contains(it);
        if name.is_empty() || name.len() > MAX_TOOL_NAME || !name.chars().all(is_valid) {
            let rule = format!("use 1 to {MAX_TOOL_NAME} characters of a-z, A-Z, 0-9, '_', '-' and '.'");
            return Err(format!("'{name}' is not a valid tool name: {rule}"));
        }
        if list == ListMode::Search && [SEARCH_TOOLS, CALL_TOOL, CALL_READ_ONLY_TOOL].contains(&name.as_str()) {
            return Err(format!("'{name}' is reserved: each view with list = 'search' has a tool of this name"));
        }
        if let Some(other) = ids.insert(name.clone(), id.clone()) {
            return Err(format!("'{other}' and '{id}' have the same name '{name}'"));
        }
    }
    Ok(ids)
}

/// Checks the syntax of a scope (RFC 6749): visible ASCII except quotes and backslashes.
fn check_scope(scope: &str) -> Result<(), String> {
    let is_valid = |it: u8| it.is_ascii_graphic() && it != b'"' && it != b'\\';
    if scope.is_empty() || scope.len() > MAX_TOOL_NAME || !scope.bytes().all(is_valid) {
        return Err(format!("'{scope}' is not a scope: use visible ASCII without quotes and backslashes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole() {
        let text = "[default]\nlist = 'search'\npinned = ['echo']\n\n[views.research]\nskills = ['a']\ntoolsets = ['b']\n\
                    read_only = true\nscopes = ['tools:read']\nwrite_scopes = ['tools:write']\n[views.research.names]\na = 'A.1'\n";
        let contents = Contents::parse(text).unwrap();
        assert_eq!((contents.default.list, contents.default.lists("echo")), (ListMode::Search, true));
        assert!(!contents.default.lists("other"));
        let view = &contents.named["research"];
        assert_eq!((view.name.as_str(), view.id_of("A.1"), view.is_read_only), ("research", Some("a"), true));
        assert_eq!(Contents::parse("").unwrap(), Contents::default());
    }

    #[test]
    fn what_is_wrong_is_refused_with_the_reason() {
        for (text, word) in [
            ("[views.A]\n", "view name"),
            ("[views.a]\nskill = ['x']\n", "line 2"),
            ("[views.a]\nlist = 'some'\n", "line 2"),
            ("[views.a.names]\nx = 'with space'\n", "not a valid tool name"),
            ("[views.a.names]\nx = 'same'\ny = 'same'\n", "same name"),
            ("[views.a]\nlist = 'search'\n[views.a.names]\nx = 'call_tool'\n", "call_tool"),
            ("[views.a]\nscopes = ['a b']\n", "not a scope"),
        ] {
            let reason = Contents::parse(text).unwrap_err();
            assert!(reason.contains(word), "{word}: {reason}");
        }
    }
}
