//! The file of views. Strict: unknown fields are errors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use openskill_identity::file::shared_text;

use super::{CALL_READ_ONLY_TOOL, CALL_TOOL, Contents, ListMode, SEARCH_TOOLS, View, ViewsConfig};

/// The maximum number of views in a file, and of entries in each list of a view.
const MAX_VIEWS: usize = 256;
const MAX_ENTRIES: usize = 4096;

/// The maximum length of a view's name and of a tool's name, in bytes.
const MAX_NAME: usize = 64;
const MAX_TOOL_NAME: usize = 128;

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
        let mut contents: Self = toml_edit::de::from_str(text).map_err(|error| {
            let line = error.span().and_then(|span| text.get(..span.start)).map_or(0, |it| it.matches('\n').count());
            format!("line {}: {}", line + 1, error.message())
        })?;
        if contents.named.len() > MAX_VIEWS {
            return Err(format!("there are more than {MAX_VIEWS} views"));
        }
        for (name, view) in &mut contents.named {
            check_name(name)?;
            let view = Arc::make_mut(view);
            view.name.clone_from(name);
            view.complete().map_err(|reason| format!("view '{name}': {reason}"))?;
        }
        Arc::make_mut(&mut contents.default).complete().map_err(|reason| format!("[default]: {reason}"))?;
        Ok(contents)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"_-".contains(&it);
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_inner) {
        return Err(format!("'{name}': a view name must have 1 to {MAX_NAME} characters of a-z, 0-9, '_' and '-'"));
    }
    Ok(())
}

impl View {
    /// Checks what the file says, and derives the skill ids from the tool names.
    fn complete(&mut self) -> Result<(), String> {
        let lists = [self.skills.as_ref(), self.toolsets.as_ref(), Some(&self.pinned)];
        let longest = lists.into_iter().flatten().map(BTreeSet::len).max().unwrap_or_default();
        if longest.max(self.names.len()) > MAX_ENTRIES {
            return Err(format!("a list has more than {MAX_ENTRIES} entries"));
        }
        self.ids = ids(&self.names, self.list)?;
        self.scopes.iter().chain(&self.write_scopes).try_for_each(|it| check_scope(it))
    }
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
        assert_eq!((view.name.as_str(), view.id_of("A.1"), view.read_only), ("research", Some("a"), true));
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
