//! References written out, parts of `allOf` taken together, branches joined.

use openskill_skill::schema::lookup;
use serde_json::{Map, Value, json};

use super::Lowering;

/// How deep references and parts of `allOf` may lead into one another.
const MAX_DEPTH: usize = 16;

/// How deep a quoted schema's references are written out, and how many of its subschemas.
const QUOTED_DEPTH: usize = 6;
const QUOTED_SUBSCHEMAS: usize = 60;

impl Lowering<'_> {
    /// A schema with its reference and its `allOf` written into it. `followed` hears which references that took.
    pub(super) fn merged(&mut self, schema: &Value, followed: &mut Vec<String>) -> Map<String, Value> {
        self.merged_at(schema, followed, 0)
    }

    fn merged_at(&mut self, schema: &Value, followed: &mut Vec<String>, depth: usize) -> Map<String, Value> {
        let Some(object) = schema.as_object() else { return Map::new() };
        let mut merged = object.clone();
        if depth > MAX_DEPTH || self.left == 0 {
            self.lose("its references lead too deep into one another");
            merged.shift_remove("$ref");
            merged.shift_remove("allOf");
            return merged;
        }
        let root = self.root;
        let mut parts = Vec::new();
        if let Some(Value::String(reference)) = merged.shift_remove("$ref") {
            parts.extend(lookup(root, &reference).cloned());
            followed.push(reference);
        }
        if let Some(Value::Array(all)) = merged.shift_remove("allOf") {
            parts.extend(all);
        }
        for part in parts {
            self.left = self.left.saturating_sub(1);
            for (keyword, value) in self.merged_at(&part, followed, depth + 1) {
                self.put_together(&mut merged, keyword, value);
            }
        }
        merged
    }

    /// Adds a keyword of one part to those of the others: both have to hold.
    fn put_together(&mut self, merged: &mut Map<String, Value>, keyword: String, value: Value) {
        let Some(there) = merged.get_mut(&keyword) else {
            merged.insert(keyword, value);
            return;
        };
        let number = |it: &Value| it.as_f64();
        match (keyword.as_str(), &mut *there, value) {
            ("properties", Value::Object(there), Value::Object(new)) => {
                for (name, schema) in new {
                    match there.get_mut(&name) {
                        Some(other) if *other != schema => *other = json!({ "allOf": [other, schema] }),
                        Some(_) => {}
                        None => drop(there.insert(name, schema)),
                    }
                }
            }
            ("required", Value::Array(there), Value::Array(new)) => {
                let fresh: Vec<_> = new.into_iter().filter(|it| !there.contains(it)).collect();
                there.extend(fresh);
            }
            ("enum", Value::Array(there), Value::Array(new)) => there.retain(|it| new.contains(it)),
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems", there, new) if number(&new) > number(there) => {
                *there = new;
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems", there, new) if number(&new) < number(there) => {
                *there = new;
            }
            ("title" | "description" | "default" | "examples" | "$schema" | "$defs", ..) => {}
            (_, there, new) if *there == new || new.is_number() => {}
            (_, there, new) if is_part_of(&new, there) => *there = new,
            (_, there, new) if is_part_of(there, &new) => {}
            _ => self.lose("parts of its allOf can't be said together"),
        }
    }

    /// A schema for quoting: references written out as far as there is place, without what only describes.
    pub(super) fn written_out(&self, schema: &Value) -> Value {
        let mut left = QUOTED_SUBSCHEMAS;
        write_out(self.root, schema, QUOTED_DEPTH, &mut left)
    }
}

/// Whether one value of `type` allows less than another.
fn is_part_of(narrow: &Value, wide: &Value) -> bool {
    wide.as_array().is_some_and(|wide| match narrow {
        Value::String(_) => wide.contains(narrow),
        Value::Array(narrow) => narrow.iter().all(|it| wide.contains(it)),
        _ => false,
    })
}

fn write_out(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Value {
    let object = match schema {
        Value::Array(items) => return items.iter().map(|it| write_out(root, it, depth, left)).collect(),
        Value::Object(object) => object,
        other => return other.clone(),
    };
    *left = left.saturating_sub(1);
    if let Some(target) = object.get("$ref").and_then(Value::as_str).and_then(|it| lookup(root, it)) {
        return match depth.checked_sub(1).filter(|_| *left > 0) {
            Some(depth) => write_out(root, target, depth, left),
            None => json!({}),
        };
    }
    let silent = ["title", "description", "examples", "$schema", "$defs", "definitions"];
    let mut written = Map::new();
    for (keyword, it) in object.iter().filter(|(keyword, _)| !silent.contains(&keyword.as_str())) {
        let it = match (keyword.as_str(), it) {
            // Here keys are names, not keywords.
            ("properties" | "patternProperties", Value::Object(by_name)) => {
                by_name.iter().map(|(name, it)| (name.clone(), write_out(root, it, depth, left))).collect()
            }
            ("enum" | "const" | "default", it) => it.clone(),
            (_, it) => write_out(root, it, depth, left),
        };
        written.insert(keyword.clone(), it);
    }
    Value::Object(written)
}

/// Adds what one branch declares: a name that several declare may be what any of them says.
pub(super) fn join_properties(joined: &mut Map<String, Value>, properties: Option<&Value>) {
    for (name, schema) in properties.and_then(Value::as_object).into_iter().flatten() {
        match joined.get_mut(name) {
            Some(there) if there == schema => {}
            Some(there) => {
                let mut branches = match there.get("anyOf") {
                    Some(Value::Array(branches)) if there.as_object().is_some_and(|it| it.len() == 1) => {
                        branches.clone()
                    }
                    _ => vec![there.clone()],
                };
                branches.push(schema.clone());
                *there = json!({ "anyOf": branches });
            }
            None => drop(joined.insert(name.clone(), schema.clone())),
        }
    }
}

/// Adds properties to an object's own; those that are there stay.
pub(super) fn adopt_properties(object: &mut Map<String, Value>, properties: Map<String, Value>) {
    if properties.is_empty() {
        return;
    }
    let there = object.entry("properties").or_insert_with(|| json!({}));
    if let Some(there) = there.as_object_mut() {
        for (name, schema) in properties {
            there.entry(name).or_insert(schema);
        }
    }
}

/// Branches that are all made of fixed values, as one `enum`, with what was said of each.
pub(super) fn as_one_enum(branches: &[Value]) -> Option<Map<String, Value>> {
    let plain = ["const", "enum", "type", "title", "description"];
    let mut values: Vec<Value> = Vec::new();
    let mut said = Vec::new();
    for branch in branches {
        let object = branch.as_object().filter(|it| it.keys().all(|keyword| plain.contains(&keyword.as_str())))?;
        let own = match (object.get("const"), object.get("enum")) {
            (Some(only), None) => vec![only.clone()],
            (None, Some(Value::Array(several))) => several.clone(),
            _ => return None,
        };
        if let ([only], Some(text)) = (&own[..], object.get("description").and_then(Value::as_str)) {
            said.push(format!("{only}: {text}"));
        }
        let fresh: Vec<_> = own.into_iter().filter(|it| !values.contains(it)).collect();
        values.extend(fresh);
    }
    let mut one = Map::new();
    one.insert("enum".to_owned(), Value::Array(values));
    if !said.is_empty() {
        one.insert("description".to_owned(), said.join("; ").into());
    }
    Some(one).filter(|_| !branches.is_empty())
}

/// Takes out what describes a schema and does not restrict it.
pub(super) fn take_description(merged: &mut Map<String, Value>) -> Map<String, Value> {
    let about = ["title", "description", "default", "examples", "deprecated"];
    about.iter().filter_map(|keyword| Some(((*keyword).to_owned(), merged.shift_remove(*keyword)?))).collect()
}

/// Whether a schema may take some string, as far as its types say.
pub(super) fn takes_string(root: &Value, schema: &Value, depth: usize) -> bool {
    let Some(object) = schema.as_object() else { return *schema != Value::Bool(false) };
    if depth > MAX_DEPTH {
        return true;
    }
    if let Some(target) = object.get("$ref").and_then(Value::as_str).and_then(|it| lookup(root, it))
        && !takes_string(root, target, depth + 1)
    {
        return false;
    }
    let is_string = |it: &Value| it.as_str() == Some("string");
    let by_type = match object.get("type") {
        Some(Value::Array(several)) => several.iter().any(is_string),
        Some(one) => is_string(one),
        None => true,
    };
    let some = |keyword: &str| object.get(keyword).and_then(Value::as_array);
    let in_branch = |branches: &Vec<Value>| branches.iter().any(|it| takes_string(root, it, depth + 1));
    by_type
        && object.get("const").is_none_or(Value::is_string)
        && some("enum").is_none_or(|values| values.iter().any(Value::is_string))
        && some("anyOf").is_none_or(in_branch)
        && some("oneOf").is_none_or(in_branch)
        && some("allOf").is_none_or(|parts| parts.iter().all(|it| takes_string(root, it, depth + 1)))
}
