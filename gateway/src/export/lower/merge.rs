//! Inlines references, merges the parts of `allOf`, and joins branches.

use openskill_skill::schema::lookup;
use serde_json::{Map, Value, json};

use super::lowering::Lowering;

/// The maximum nesting of references and `allOf` parts.
const MAX_DEPTH: usize = 16;

/// The limits for a quoted schema: the depth to which references are inlined, and the number of subschemas.
const QUOTED_DEPTH: usize = 6;
const QUOTED_SUBSCHEMAS: usize = 60;

impl Lowering<'_> {
    /// Merges a schema's `$ref` and `allOf` into it. Adds the references that were followed to `followed`. `depth` is
    /// the nesting of references and `allOf` parts.
    pub(super) fn merge(&mut self, schema: &Value, followed: &mut Vec<String>, depth: usize) -> Map<String, Value> {
        let Some(object) = schema.as_object() else { return Map::new() };
        let mut merged = object.clone();
        if depth > MAX_DEPTH || self.subschemas_left == 0 {
            self.lose("its references are nested too deeply");
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
            self.subschemas_left = self.subschemas_left.saturating_sub(1);
            for (keyword, value) in self.merge(&part, followed, depth + 1) {
                self.intersect(&mut merged, keyword, value);
            }
        }
        merged
    }

    /// Adds a keyword to the merged ones, so that both apply.
    fn intersect(&mut self, merged: &mut Map<String, Value>, keyword: String, value: Value) {
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
            (_, there, new) if is_subtype(&new, there) => *there = new,
            (_, there, new) if is_subtype(there, &new) => {}
            _ => self.lose("the parts of its allOf cannot be merged"),
        }
    }

    /// Prepares a schema for quoting: inlines references within limits, and removes descriptions.
    pub(super) fn inline_references(&self, schema: &Value) -> Value {
        let mut left = QUOTED_SUBSCHEMAS;
        inline(self.root, schema, QUOTED_DEPTH, &mut left)
    }
}

/// Whether one value of `type` allows a subset of another.
fn is_subtype(narrow: &Value, wide: &Value) -> bool {
    wide.as_array().is_some_and(|wide| match narrow {
        Value::String(_) => wide.contains(narrow),
        Value::Array(narrow) => narrow.iter().all(|it| wide.contains(it)),
        _ => false,
    })
}

fn inline(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Value {
    let object = match schema {
        Value::Array(items) => return items.iter().map(|it| inline(root, it, depth, left)).collect(),
        Value::Object(object) => object,
        other => return other.clone(),
    };
    *left = left.saturating_sub(1);
    if let Some(target) = object.get("$ref").and_then(Value::as_str).and_then(|it| lookup(root, it)) {
        return match depth.checked_sub(1).filter(|_| *left > 0) {
            Some(depth) => inline(root, target, depth, left),
            None => json!({}),
        };
    }
    let descriptive = ["title", "description", "examples", "$schema", "$defs", "definitions"];
    let mut inlined = Map::new();
    for (keyword, it) in object.iter().filter(|(keyword, _)| !descriptive.contains(&keyword.as_str())) {
        let it = match (keyword.as_str(), it) {
            // These keys are names, not keywords.
            ("properties" | "patternProperties", Value::Object(by_name)) => {
                by_name.iter().map(|(name, it)| (name.clone(), inline(root, it, depth, left))).collect()
            }
            ("enum" | "const" | "default", it) => it.clone(),
            (_, it) => inline(root, it, depth, left),
        };
        inlined.insert(keyword.clone(), it);
    }
    Value::Object(inlined)
}

/// Adds the properties of one branch. A name that several branches declare may match any of them.
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

/// Adds properties to those of an object. Existing ones take precedence.
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

/// Merges branches that all consist of fixed values into one `enum`, with their descriptions.
pub(super) fn as_one_enum(branches: &[Value]) -> Option<Map<String, Value>> {
    let allowed = ["const", "enum", "type", "title", "description"];
    let mut values: Vec<Value> = Vec::new();
    let mut descriptions = Vec::new();
    for branch in branches {
        let object = branch.as_object().filter(|it| it.keys().all(|keyword| allowed.contains(&keyword.as_str())))?;
        let own = match (object.get("const"), object.get("enum")) {
            (Some(only), None) => vec![only.clone()],
            (None, Some(Value::Array(several))) => several.clone(),
            _ => return None,
        };
        if let ([only], Some(text)) = (&own[..], object.get("description").and_then(Value::as_str)) {
            descriptions.push(format!("{only}: {text}"));
        }
        let fresh: Vec<_> = own.into_iter().filter(|it| !values.contains(it)).collect();
        values.extend(fresh);
    }
    let mut one = Map::new();
    one.insert("enum".to_owned(), Value::Array(values));
    if !descriptions.is_empty() {
        one.insert("description".to_owned(), descriptions.join("; ").into());
    }
    Some(one).filter(|_| !branches.is_empty())
}

/// Removes and returns the keywords that describe a schema without restricting it.
pub(super) fn take_description(merged: &mut Map<String, Value>) -> Map<String, Value> {
    let about = ["title", "description", "default", "examples", "deprecated"];
    about.iter().filter_map(|keyword| Some(((*keyword).to_owned(), merged.shift_remove(*keyword)?))).collect()
}

/// Whether a schema may accept some string, judging by its types and fixed values.
pub(super) fn accepts_string(root: &Value, schema: &Value, depth: usize) -> bool {
    let Some(object) = schema.as_object() else { return *schema != Value::Bool(false) };
    if depth > MAX_DEPTH {
        return true;
    }
    if let Some(target) = object.get("$ref").and_then(Value::as_str).and_then(|it| lookup(root, it))
        && !accepts_string(root, target, depth + 1)
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
    let in_branch = |branches: &Vec<Value>| branches.iter().any(|it| accepts_string(root, it, depth + 1));
    by_type
        && object.get("const").is_none_or(Value::is_string)
        && some("enum").is_none_or(|values| values.iter().any(Value::is_string))
        && some("anyOf").is_none_or(in_branch)
        && some("oneOf").is_none_or(in_branch)
        && some("allOf").is_none_or(|parts| parts.iter().all(|it| accepts_string(root, it, depth + 1)))
}
