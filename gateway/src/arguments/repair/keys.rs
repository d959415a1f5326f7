//! Keys: a wrapper around them, other names for them, those that are missing, those that nobody knows.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Wrong;
use serde_json::Value;

use super::{Repairer, fold};
use crate::arguments::schema::{declared, property};
use crate::arguments::tree::{Tree, join};
use crate::arguments::{Kind, Repair, parse};

/// Keys that models put around the arguments.
const WRAPPERS: [&str; 6] = ["input", "arguments", "parameters", "args", "properties", "kwargs"];

/// Takes the arguments out of a sole undeclared wrapper. Whether there was one.
pub(super) fn unwrap(it: &mut Repairer<'_>) -> bool {
    let Some([(key, inner)]) = it.tree.fields().map(Vec::as_slice) else { return false };
    let known = declared(it.schema, it.schema).iter().any(|name| fold::key(name) == fold::key(key));
    if known || !WRAPPERS.contains(&key.as_str()) || it.rules.aliases.contains_key(key) {
        return false;
    }
    let (inner, encoded) = match inner {
        Tree::Object(_) => (inner.clone(), Vec::new()),
        Tree::Text(text) => match parse::object(text) {
            Ok((tree, repairs)) => {
                let encoded = Repair::new("", Kind::DoubleEncoded, Some(inner.write()), Some(tree.write()));
                (tree, repairs.into_iter().chain([encoded]).collect())
            }
            Err(_) => return false,
        },
        _ => return false,
    };
    let before = Some(Value::from(key.as_str()).to_string());
    it.repairs.push(Repair::new("", Kind::Wrapper, before, None));
    it.repairs.extend(encoded);
    it.tree = inner;
    true
}

/// Gives keys the names their schema has for them, where only one can be meant. Whether any was renamed.
pub(super) fn rename(it: &mut Repairer<'_>, errors: &[ValidationError<'_>]) -> bool {
    let mut renames = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for error in errors {
        let path = error.instance_path().as_str();
        if !speaks_of_keys(error) || seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let Some(object) = it.tree.at(path) else { continue };
        let schema = if path.is_empty() { Some(it.schema) } else { it.subschema(error) };
        let names = schema.map(|schema| declared(it.schema, schema)).unwrap_or_default();
        for (key, _) in object.fields().into_iter().flatten() {
            let meant = meant_by(it, object, &names, key, path.is_empty());
            renames.extend(meant.map(|(kind, name)| (path.to_owned(), kind, key.clone(), name)));
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

fn speaks_of_keys(error: &ValidationError<'_>) -> bool {
    let kind = error.kind();
    matches!(kind, Wrong::Required { .. } | Wrong::AdditionalProperties { .. } | Wrong::UnevaluatedProperties { .. })
}

/// The declared name that an undeclared key stands for, if it can be only one and that one is absent.
fn meant_by(it: &Repairer<'_>, object: &Tree, names: &[&str], key: &str, top: bool) -> Option<(Kind, String)> {
    if names.contains(&key) {
        return None;
    }
    let folded = fold::key(key);
    let fields = object.fields()?;
    let others = || fields.iter().filter(|(other, _)| other != key && !names.contains(&other.as_str()));
    if let Some(name) = fold::only(names, |name| fold::key(name) == folded) {
        let alone = object.get(name).is_none() && !others().any(|(other, _)| stands_for(it, other, name, names, top));
        return alone.then(|| (Kind::KeyFold, (*name).to_owned()));
    }
    let target = if top { it.rules.aliases.get(key)? } else { return None };
    let alone = names.contains(&target.as_str())
        && object.get(target).is_none()
        && !others().any(|(other, _)| stands_for(it, other, target, names, top));
    alone.then(|| (Kind::Alias, target.clone()))
}

/// Whether an undeclared key could stand for a declared name.
fn stands_for(it: &Repairer<'_>, key: &str, name: &str, names: &[&str], top: bool) -> bool {
    let folds = fold::key(key) == fold::key(name);
    folds || (top && !names.contains(&key) && it.rules.aliases.get(key).is_some_and(|target| target == name))
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
        // An unknown key beside it may be what was meant.
        let unknown = errors.iter().any(|other| {
            let kind = other.kind();
            other.instance_path().as_str() == path
                && matches!(kind, Wrong::AdditionalProperties { .. } | Wrong::UnevaluatedProperties { .. })
        });
        let (Some(name), false) = (name.as_str(), unknown) else { continue };
        let schema = it.subschema(error).and_then(|schema| property(it.schema, schema, name));
        if let Some(default) = schema.and_then(|schema| schema.get("default")) {
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
    if !it.rules.drop_unknown || it.filled {
        return false;
    }
    let mut unknown = Vec::new();
    for error in errors {
        let (Wrong::AdditionalProperties { unexpected } | Wrong::UnevaluatedProperties { unexpected }) = error.kind()
        else {
            return false;
        };
        let path = error.instance_path().as_str();
        let (Some(object), Some(schema)) = (it.tree.at(path), it.subschema(error)) else { return false };
        let names = declared(it.schema, schema);
        if unexpected.iter().any(|key| may_be_meant(it, object, &names, key, path.is_empty())) {
            return false;
        }
        unknown.extend(unexpected.iter().map(|key| (path.to_owned(), key.clone())));
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
    names.iter().any(|name| match object.get(name) {
        Some(there) => stands_for(it, key, name, names, top) && Some(there) != value,
        None => stands_for(it, key, name, names, top) || fold::is_near(key, name),
    })
}
