//! Keys: a wrapper around them, other names for them, those that are missing, those that nobody knows.

use std::collections::BTreeMap;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Wrong;
use serde_json::Value;

use super::{MAX_REPAIRS, Repairer, fold, values};
use crate::arguments::schema::{declared, properties};
use crate::arguments::tree::{Tree, join};
use crate::arguments::{Kind, Repair};

/// Keys that models put around the arguments.
const WRAPPERS: [&str; 6] = ["input", "arguments", "parameters", "args", "properties", "kwargs"];

/// An object with more keys than this has none of them renamed or left out.
const MAX_KEYS: usize = 1000;

/// What is wrong with the keys of one object.
#[derive(Default)]
struct Trouble<'e> {
    unexpected: Vec<&'e str>,
    missing: Vec<&'e str>,
}

/// The objects whose keys are complained of, by their places, each with one of its errors.
fn troubles<'e>(errors: &'e [ValidationError<'_>]) -> BTreeMap<&'e str, (Trouble<'e>, &'e ValidationError<'e>)> {
    let mut found: BTreeMap<&str, (Trouble<'_>, &ValidationError<'_>)> = BTreeMap::new();
    for error in errors {
        let path = error.instance_path().as_str();
        match error.kind() {
            Wrong::Required { property } => {
                let (trouble, _) = found.entry(path).or_insert((Trouble::default(), error));
                trouble.missing.extend(property.as_str());
            }
            Wrong::AdditionalProperties { unexpected } | Wrong::UnevaluatedProperties { unexpected } => {
                let (trouble, holder) = found.entry(path).or_insert((Trouble::default(), error));
                trouble.unexpected.extend(unexpected.iter().take(MAX_KEYS + 1).map(String::as_str));
                *holder = error;
            }
            _ => {}
        }
    }
    found
}

/// Whether more keys are complained of than one call may have changed.
fn are_many(troubles: &BTreeMap<&str, (Trouble<'_>, &ValidationError<'_>)>) -> bool {
    troubles.values().map(|(trouble, _)| trouble.unexpected.len()).sum::<usize>() > MAX_REPAIRS
}

/// Takes the arguments out of a sole wrapper that is complained of, or beside which something is missing. Whether there
/// was one.
pub(super) fn unwrap(it: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let Some([(key, inner)]) = it.tree.fields().map(Vec::as_slice) else { return false };
    let known = declared(it.schema, it.schema).iter().any(|name| fold::key(name) == fold::key(key));
    if known || !WRAPPERS.contains(&key.as_str()) || it.rules.aliases.contains_key(key) {
        return false;
    }
    let complained = troubles(errors)
        .get("")
        .is_some_and(|(trouble, _)| !trouble.missing.is_empty() || trouble.unexpected.contains(&key.as_str()));
    if !complained {
        return false;
    }
    let (object, encoded) = match inner {
        Tree::Object(_) => (inner.clone(), None),
        Tree::Text(text) => match values::whole(text) {
            Some(object @ Tree::Object(_)) => {
                let encoded = Repair::new("", Kind::DoubleEncoded, Some(inner.write()), Some(object.write()));
                (object, Some(encoded))
            }
            _ => return false,
        },
        _ => return false,
    };
    let before = Some(Value::from(key.as_str()).to_string());
    it.repairs.push(Repair::new("", Kind::Wrapper, before, None));
    it.repairs.extend(encoded);
    it.tree = object;
    true
}

/// Gives keys the names their schema has for them, where only one can be meant. Whether any was renamed.
pub(super) fn rename(it: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let mut renames = Vec::new();
    let troubles = troubles(errors);
    if are_many(&troubles) {
        return false;
    }
    for (path, (trouble, error)) in troubles {
        let Some(object) = it.tree.at(path).filter(|object| object.fields().is_some_and(|it| it.len() <= MAX_KEYS))
        else {
            continue;
        };
        let top = path.is_empty();
        let schema = if top { Some(it.schema) } else { it.subschema(error) };
        let names = schema.map(|schema| declared(it.schema, schema)).unwrap_or_default();
        for (key, _) in object.fields().into_iter().flatten() {
            let Some((kind, name)) = meant_by(it, object, &names, key, top) else { continue };
            // A key that an object may have is only taken for another if that one is missing.
            if trouble.unexpected.contains(&key.as_str()) || (top && trouble.missing.contains(&name.as_str())) {
                renames.push((path.to_owned(), kind, key.clone(), name));
            }
        }
    }
    for (path, kind, key, name) in &renames {
        if let Some(Tree::Object(fields)) = it.tree.at_mut(path)
            && let Some(field) = fields.iter_mut().find(|(written, _)| written == key)
        {
            field.0.clone_from(name);
            let shown = |key: &str| Some(Value::from(key).to_string());
            it.repairs.push(Repair::new(join(path, name), *kind, shown(key), shown(name)));
        }
    }
    !renames.is_empty()
}

/// The declared name that an undeclared key stands for, if it can be only one and that one is absent.
fn meant_by(it: &Repairer<'_>, object: &Tree, names: &[&str], key: &str, top: bool) -> Option<(Kind, String)> {
    if names.contains(&key) {
        return None;
    }
    let folded = fold::key(key);
    let (kind, name) = match fold::only(names, |name| fold::key(name) == folded) {
        Some(name) => (Kind::KeyFold, *name),
        None if top => (Kind::Alias, alias(it, key, &folded)?),
        None => return None,
    };
    let free = names.contains(&name) && object.get(name).is_none();
    let rival = |other: &str| other != key && stands_for(it, other, name, names, top);
    let alone = free && !object.fields()?.iter().any(|(other, _)| rival(other));
    alone.then(|| (kind, name.to_owned()))
}

/// The parameter that a key stands for by an alias, as written or in another case.
fn alias<'r>(it: &Repairer<'r>, key: &str, folded: &str) -> Option<&'r str> {
    let aliases = &it.rules.aliases;
    let in_other_case = || fold::only(aliases, |(alias, _)| fold::key(alias) == folded).map(|(_, name)| name);
    aliases.get(key).or_else(in_other_case).map(String::as_str)
}

/// Whether an undeclared key could stand for a declared name.
fn stands_for(it: &Repairer<'_>, key: &str, name: &str, names: &[&str], top: bool) -> bool {
    if names.contains(&key) {
        return false;
    }
    let folded = fold::key(key);
    let by_alias = |(alias, target): (&String, &String)| target == name && fold::key(alias) == folded;
    folded == fold::key(name) || (top && it.rules.aliases.iter().any(by_alias))
}

/// Gives missing required parameters the defaults that their schemas declare. Whether any was given.
pub(super) fn fill_defaults(it: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    if !it.rules.fill_defaults {
        return false;
    }
    let mut found = Vec::new();
    for error in errors {
        let Wrong::Required { property: name } = error.kind() else { continue };
        let path = error.instance_path().as_str();
        let (Some(name), Some(schema)) = (name.as_str(), it.subschema(error)) else { continue };
        // A key that is not declared may be what was meant for it, whether the object may have it or not.
        let names = declared(it.schema, if path.is_empty() { it.schema } else { schema });
        let fields = it.tree.at(path).and_then(Tree::fields);
        if fields.is_none_or(|fields| fields.iter().any(|(key, _)| !names.contains(&key.as_str()))) {
            continue;
        }
        let defaults: Vec<_> = properties(it.schema, schema, name).into_iter().map(|it| it.get("default")).collect();
        if let [Some(default), rest @ ..] = &defaults[..]
            && rest.iter().all(|other| *other == Some(*default))
        {
            found.push((path.to_owned(), name.to_owned(), Tree::from_value(default)));
        }
    }
    let mut changed = false;
    for (path, name, default) in found {
        if let Some(Tree::Object(fields)) = it.tree.at_mut(&path)
            && !fields.iter().any(|(key, _)| *key == name)
        {
            it.repairs.push(Repair::new(join(&path, &name), Kind::DefaultFilled, None, Some(default.write())));
            fields.push((name, default));
            changed = true;
        }
    }
    it.filled |= changed;
    changed
}

/// Leaves out keys that nobody knows, if they are all that is wrong and nothing was missing. Whether any was left out.
pub(super) fn drop_unknown(it: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let of_unknown = |error: &ValidationError<'_>| {
        matches!(error.kind(), Wrong::AdditionalProperties { .. } | Wrong::UnevaluatedProperties { .. })
    };
    if !it.rules.drop_unknown || it.filled || !errors.iter().all(of_unknown) {
        return false;
    }
    let mut unknown = Vec::new();
    let troubles = troubles(errors);
    if are_many(&troubles) {
        return false;
    }
    for (path, (trouble, error)) in troubles {
        let (Some(object), Some(schema)) = (it.tree.at(path), it.subschema(error)) else { return false };
        let names = declared(it.schema, schema);
        if trouble.unexpected.iter().any(|key| may_be_meant(it, object, &names, key, path.is_empty())) {
            return false;
        }
        unknown.extend(trouble.unexpected.iter().map(|key| (path.to_owned(), (*key).to_owned())));
    }
    for (path, key) in &unknown {
        if let Some(dropped) = it.tree.at_mut(path).and_then(|object| object.remove(key)) {
            it.repairs.push(Repair::new(join(path, key), Kind::UnknownDropped, Some(dropped.write()), None));
        }
    }
    !unknown.is_empty()
}

/// Whether leaving a key out could lose what was meant: it is declared for another case, it gives a second value for a
/// parameter, or it looks like a slip of the pen for one that is absent.
fn may_be_meant(it: &Repairer<'_>, object: &Tree, names: &[&str], key: &str, top: bool) -> bool {
    if names.contains(&key) {
        return true;
    }
    let value = object.get(key);
    let holds_object = value.is_some_and(|value| match value {
        Tree::Object(_) => true,
        Tree::Text(text) => matches!(values::whole(text), Some(Tree::Object(_))),
        _ => false,
    });
    // A wrapper beside something else: the arguments may be in it.
    if top && holds_object && WRAPPERS.contains(&key) {
        return true;
    }
    names.iter().any(|name| match object.get(name) {
        Some(there) => stands_for(it, key, name, names, top) && Some(there) != value,
        None => stands_for(it, key, name, names, top) || fold::is_near(key, name),
    })
}
