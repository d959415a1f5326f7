//! Rules for keys: a wrapper around the arguments, alternative names, missing keys with a default, unknown keys.

use std::collections::BTreeMap;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as ErrorKind;
use openskill_skill::schema::join;
use serde_json::Value;

use super::state::{Edit, MAX_REPAIRS, Repairer};
use super::values;
use crate::arguments::fold::{exactly_one, fold_key, is_typo};
use crate::arguments::kind::{Kind, Repair};
use crate::arguments::schema::{declared_names, properties};
use crate::arguments::tree::Tree;

/// Keys that models wrap the arguments in.
const WRAPPERS: [&str; 6] = ["input", "arguments", "parameters", "args", "properties", "kwargs"];

/// The maximum number of keys in an object whose keys are renamed or dropped.
const MAX_KEYS: usize = 1000;

/// The key errors of one object.
#[derive(Default)]
struct KeyErrors<'e> {
    unexpected: Vec<&'e str>,
    missing: Vec<&'e str>,
}

/// Groups key errors by the path of their object, each group with one of its errors.
fn key_errors<'e>(errors: &'e [ValidationError<'_>]) -> BTreeMap<&'e str, (KeyErrors<'e>, &'e ValidationError<'e>)> {
    let mut found: BTreeMap<&str, (KeyErrors<'_>, &ValidationError<'_>)> = BTreeMap::new();
    for error in errors {
        let path = error.instance_path().as_str();
        match error.kind() {
            ErrorKind::Required { property } => {
                let (keys, _) = found.entry(path).or_insert((KeyErrors::default(), error));
                keys.missing.extend(property.as_str());
            }
            ErrorKind::AdditionalProperties { unexpected } | ErrorKind::UnevaluatedProperties { unexpected } => {
                let (keys, holder) = found.entry(path).or_insert((KeyErrors::default(), error));
                keys.unexpected.extend(unexpected.iter().take(MAX_KEYS + 1).map(String::as_str));
                *holder = error;
            }
            _ => {}
        }
    }
    found
}

/// Whether a call has more unexpected keys than may be repaired.
fn are_many(by_path: &BTreeMap<&str, (KeyErrors<'_>, &ValidationError<'_>)>) -> bool {
    by_path.values().map(|(keys, _)| keys.unexpected.len()).sum::<usize>() > MAX_REPAIRS
}

/// Unwraps the arguments from a single undeclared key such as `arguments`. Returns whether it did.
pub(super) fn unwrap(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let Some([(key, inner)]) = repairer.tree.fields().map(Vec::as_slice) else { return false };
    let is_declared =
        declared_names(repairer.schema, repairer.schema).iter().any(|name| fold_key(name) == fold_key(key));
    if is_declared || !WRAPPERS.contains(&key.as_str()) || repairer.rules.aliases.contains_key(key) {
        return false;
    }
    let is_wrong = key_errors(errors)
        .get("")
        .is_some_and(|(keys, _)| !keys.missing.is_empty() || keys.unexpected.contains(&key.as_str()));
    if !is_wrong {
        return false;
    }
    let Some(object) = held_object(inner) else { return false };
    let encoded = matches!(inner, Tree::Text(_))
        .then(|| Repair::new("", Kind::DoubleEncoded, Some(inner.write()), Some(object.write())));
    let before = Some(Value::from(key.as_str()).to_string());
    repairer.repairs.push(Repair::new("", Kind::Wrapper, before, None));
    repairer.repairs.extend(encoded);
    repairer.tree = object;
    true
}

/// Returns the value if it is an object, or the object that its string encodes.
fn held_object(value: &Tree) -> Option<Tree> {
    match value {
        Tree::Object(_) => Some(value.clone()),
        Tree::Text(text) => values::object(text),
        _ => None,
    }
}

/// Renames keys to the declared names that they unambiguously stand for. Returns whether any was renamed.
pub(super) fn rename(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let mut renames = Vec::new();
    let by_path = key_errors(errors);
    if are_many(&by_path) {
        return false;
    }
    for (path, (keys, error)) in by_path {
        let Some(object) =
            repairer.tree.at(path).filter(|object| object.fields().is_some_and(|it| it.len() <= MAX_KEYS))
        else {
            continue;
        };
        let top = path.is_empty();
        let schema = if top { Some(repairer.schema) } else { repairer.failing_schema(error) };
        let names = schema.map(|schema| declared_names(repairer.schema, schema)).unwrap_or_default();
        for (key, _) in object.fields().into_iter().flatten() {
            let Some((kind, name)) = meant_by(repairer, object, &names, key, top) else { continue };
            // Rename a key that the object accepts only if the declared key is missing.
            if keys.unexpected.contains(&key.as_str()) || (top && keys.missing.contains(&name.as_str())) {
                renames.push((path.to_owned(), kind, key.clone(), name));
            }
        }
    }
    for (path, kind, key, name) in &renames {
        if let Some(Tree::Object(fields)) = repairer.tree.at_mut(path)
            && let Some(field) = fields.iter_mut().find(|(written, _)| written == key)
        {
            field.0.clone_from(name);
            let shown = |key: &str| Some(Value::from(key).to_string());
            repairer.repairs.push(Repair::new(join(path, name), *kind, shown(key), shown(name)));
        }
    }
    !renames.is_empty()
}

/// Returns the declared name that an undeclared key stands for, if exactly one is possible and absent.
fn meant_by(repairer: &Repairer<'_>, object: &Tree, names: &[&str], key: &str, top: bool) -> Option<(Kind, String)> {
    if names.contains(&key) {
        return None;
    }
    let folded = fold_key(key);
    let (kind, name) = match exactly_one(names, |name| fold_key(name) == folded) {
        Some(name) => (Kind::KeyFold, *name),
        None if top => (Kind::Alias, alias(repairer, key, &folded)?),
        None => return None,
    };
    let is_free = names.contains(&name) && object.get(name).is_none();
    let is_rival = |other: &str| other != key && stands_for(repairer, other, name, names, top);
    let is_unrivalled = is_free && !object.fields()?.iter().any(|(other, _)| is_rival(other));
    is_unrivalled.then(|| (kind, name.to_owned()))
}

/// Returns the parameter that a key is an alias of, exactly or in another case.
fn alias<'r>(repairer: &Repairer<'r>, key: &str, folded: &str) -> Option<&'r str> {
    let aliases = &repairer.rules.aliases;
    let in_other_case = || exactly_one(aliases, |(alias, _)| fold_key(alias) == folded).map(|(_, name)| name);
    aliases.get(key).or_else(in_other_case).map(String::as_str)
}

/// Whether an undeclared key could stand for a declared name.
fn stands_for(repairer: &Repairer<'_>, key: &str, name: &str, names: &[&str], top: bool) -> bool {
    if names.contains(&key) {
        return false;
    }
    let folded = fold_key(key);
    let by_alias = |(alias, target): (&String, &String)| target == name && fold_key(alias) == folded;
    folded == fold_key(name) || (top && repairer.rules.aliases.iter().any(by_alias))
}

/// Fills missing required parameters with their declared defaults. Returns whether any was filled.
pub(super) fn fill_defaults(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    if !repairer.rules.fill_defaults {
        return false;
    }
    let mut found = Vec::new();
    for error in errors {
        let ErrorKind::Required { property: name } = error.kind() else { continue };
        let path = error.instance_path().as_str();
        let (Some(name), Some(schema)) = (name.as_str(), repairer.failing_schema(error)) else { continue };
        // An undeclared key may have been meant for the missing one, even if the object accepts that key.
        let names = declared_names(repairer.schema, if path.is_empty() { repairer.schema } else { schema });
        let fields = repairer.tree.at(path).and_then(Tree::fields);
        if fields.is_none_or(|fields| fields.iter().any(|(key, _)| !names.contains(&key.as_str()))) {
            continue;
        }
        let defaults: Vec<_> =
            properties(repairer.schema, schema, name).into_iter().map(|it| it.get("default")).collect();
        if let [Some(default), rest @ ..] = &defaults[..]
            && rest.iter().all(|other| *other == Some(*default))
        {
            found.push((path.to_owned(), name.to_owned(), Tree::from_value(default)));
        }
    }
    let mut changed = false;
    for (path, name, default) in found {
        if let Some(Tree::Object(fields)) = repairer.tree.at_mut(&path)
            && !fields.iter().any(|(key, _)| *key == name)
        {
            repairer.repairs.push(Repair::new(join(&path, &name), Kind::DefaultFilled, None, Some(default.write())));
            fields.push((name, default));
            changed = true;
        }
    }
    repairer.default_filled |= changed;
    changed
}

/// Drops unknown keys if nothing else is wrong and no parameter was missing. Returns whether any was dropped.
pub(super) fn drop_unknown(repairer: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let is_unknown_key = |error: &ValidationError<'_>| {
        matches!(error.kind(), ErrorKind::AdditionalProperties { .. } | ErrorKind::UnevaluatedProperties { .. })
    };
    if !repairer.rules.drop_unknown || repairer.default_filled || !errors.iter().all(is_unknown_key) {
        return false;
    }
    let mut unknown = Vec::new();
    let by_path = key_errors(errors);
    if are_many(&by_path) {
        return false;
    }
    for (path, (keys, error)) in by_path {
        let (Some(object), Some(schema)) = (repairer.tree.at(path), repairer.failing_schema(error)) else {
            return false;
        };
        if schema.get("patternProperties").is_some() {
            // With `patternProperties`, keys are data. A key that does not match may be a mistyped one that
            // matters.
            return false;
        }
        let names = declared_names(repairer.schema, schema);
        if keys.unexpected.iter().any(|key| may_be_meant(repairer, object, &names, key, path.is_empty())) {
            return false;
        }
        let dropping = |key: &&str| Edit { path: join(path, key), kind: Kind::UnknownDropped, new: None };
        unknown.extend(keys.unexpected.iter().map(dropping));
    }
    repairer.apply_all(unknown)
}

/// Whether dropping a key could lose what the model meant: the key is declared elsewhere, is a second value for a
/// parameter, or looks like a typo of an absent one.
fn may_be_meant(repairer: &Repairer<'_>, object: &Tree, names: &[&str], key: &str, top: bool) -> bool {
    if names.contains(&key) {
        return true;
    }
    let value = object.get(key);
    // A wrapper next to other keys may contain the arguments.
    if top && WRAPPERS.contains(&key) && value.and_then(held_object).is_some() {
        return true;
    }
    names.iter().any(|name| match object.get(name) {
        Some(there) => stands_for(repairer, key, name, names, top) && Some(there) != value,
        None => stands_for(repairer, key, name, names, top) || is_typo(key, name),
    })
}
