//! The names that production code may not have. `docs/vocabulary.md` says which words it uses instead.

use std::collections::{BTreeMap, BTreeSet};

/// A function, with the text between its parentheses.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) parameters: String,
}

/// The functions of a file without comments and literals.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let begins = text.match_indices("fn ").filter(|(at, _)| !text[..*at].ends_with(is_word));
    let function = |(at, _): (usize, &str)| {
        let rest = &text[at + "fn ".len()..];
        let name: String = rest.chars().take_while(|it| is_word(*it)).collect();
        let open = rest.find('(').filter(|_| !name.is_empty())?;
        Some(Function { name, parameters: bracketed(&rest[open..]).to_owned() })
    };
    begins.filter_map(function).collect()
}

/// The parameters that are tuples in which two of our own types stand.
pub(super) fn tuples<'a>(parameters: &'a str, own: &BTreeSet<String>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in parameters.match_indices(':') {
        let kind = parameters[at + 1..].trim_start().trim_start_matches('&');
        let kind = match kind.strip_prefix('\'') {
            Some(lifetime) => lifetime.trim_start_matches(is_word).trim_start(),
            None => kind,
        };
        let kind = kind.trim_start_matches("mut ");
        if !kind.starts_with('(') {
            continue;
        }
        let tuple = bracketed(kind);
        let words = tuple.split(|it| !is_word(it)).filter(|it| own.contains(*it));
        if words.count() > 1 {
            found.push(tuple);
        }
    }
    found
}

/// The types that a file defines.
pub(super) fn types(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for keyword in ["struct ", "enum ", "trait "] {
        for (at, _) in text.match_indices(keyword).filter(|(at, _)| !text[..*at].ends_with(is_word)) {
            let name: String = text[at + keyword.len()..].chars().take_while(|it| is_word(*it)).collect();
            found.extend(Some(name).filter(|it| it.starts_with(char::is_uppercase)));
        }
    }
    found
}

/// The names of one word that more than three files give to a type of theirs, with the files.
pub(super) fn repeated(files: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, Vec<&str>> {
    let mut found = BTreeMap::<String, Vec<&str>>::new();
    for (file, types) in files {
        for name in types.iter().filter(|it| it.chars().filter(|it| it.is_uppercase()).count() == 1) {
            found.entry(name.clone()).or_default().push(file);
        }
    }
    found.retain(|_, files| files.len() > 3);
    found
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// What stands between the bracket at the start and the one that closes it.
fn bracketed(text: &str) -> &str {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[1..at];
        }
    }
    text
}
