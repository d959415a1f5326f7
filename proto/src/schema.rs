//! What a declared JSON Schema may be, so that checking a value against it takes bounded time whoever wrote it.
//!
//! Workers ask this of manifests, gateways of what workers send them. Regular expressions are not looked at here: both
//! sides compile them with an engine that takes linear time and bounded memory.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::json;
use crate::limits::MAX_JSON_DEPTH;

/// The largest schema, as JSON text in bytes.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// How many subschemas a schema may have.
pub const MAX_SUBSCHEMAS: usize = 10_000;

/// The largest regular expression, compiled, in bytes; and the largest lazy automaton of one.
pub const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// How many subschemas may come to bear on one place of a value. `$ref`, `allOf` and their like multiply: thirty
/// definitions that each name the next one twice would be a thousand million.
const MAX_AT_ONE_PLACE: u64 = 20_000;

/// Keywords that hold one schema, or lists or maps of schemas, for the same place of the value.
const SAME_PLACE: [&str; 9] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$ref"];

/// Those for places within it.
const WITHIN: [&str; 10] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
];

/// Says why a schema can't be taken, if it can't.
///
/// # Errors
/// It is too large or too deep, refers to what is outside of it or to itself without end, or could take too long to
/// check a value against.
pub fn check(schema: &Value) -> Result<(), String> {
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(format!("larger than {MAX_SCHEMA_BYTES} bytes"));
    }
    if json::depth(text.as_bytes()) > 2 * MAX_JSON_DEPTH {
        return Err(format!("deeper than {} levels", 2 * MAX_JSON_DEPTH));
    }
    let mut survey = Survey { root: schema, costs: HashMap::new(), nodes: Vec::new() };
    survey.collect(schema)?;
    survey.check_growth()
}

/// A subschema's identity: where it lies in memory. The schema is borrowed for as long as the survey lasts.
type Id = *const Value;

struct Survey<'a> {
    root: &'a Value,
    /// How many subschemas come to bear on one place because of this one; none while it is being counted.
    costs: HashMap<Id, Option<u64>>,
    nodes: Vec<&'a Value>,
}

impl<'a> Survey<'a> {
    fn collect(&mut self, schema: &'a Value) -> Result<(), String> {
        if self.nodes.len() >= MAX_SUBSCHEMAS {
            return Err(format!("more than {MAX_SUBSCHEMAS} subschemas"));
        }
        self.nodes.push(schema);
        let Some(object) = schema.as_object() else { return Ok(()) };
        if object.contains_key("$dynamicRef") || object.contains_key("$recursiveRef") {
            return Err("$dynamicRef is not supported in a skill's schema: use $ref".to_owned());
        }
        let definitions = ["$defs", "definitions"];
        for keyword in SAME_PLACE.into_iter().chain(WITHIN).chain(definitions).filter(|it| *it != "$ref") {
            for inner in children(object, keyword) {
                self.collect(inner)?;
            }
        }
        Ok(())
    }

    /// Counts what comes to bear on one place, then how that multiplies from level to level of a value: an instance nests
    /// at most [`MAX_JSON_DEPTH`] deep.
    fn check_growth(&mut self) -> Result<(), String> {
        let nodes = self.nodes.clone();
        for node in &nodes {
            if self.cost(node)? > MAX_AT_ONE_PLACE {
                return Err("its $ref, allOf, anyOf or oneOf multiply without measure".to_owned());
            }
        }
        let places: Vec<Vec<Vec<usize>>> = self.slots(&nodes)?;
        let mut at_depth: Vec<u64> = nodes.iter().map(|node| self.costs[&id(node)].unwrap_or(1)).collect();
        for _ in 0..MAX_JSON_DEPTH {
            let widest = |slots: &Vec<Vec<usize>>| {
                let sum = |slot: &Vec<usize>| slot.iter().fold(0_u64, |sum, it| sum.saturating_add(at_depth[*it]));
                slots.iter().map(sum).max().unwrap_or(0)
            };
            let next: Vec<u64> = places.iter().map(widest).collect();
            if next.iter().any(|it| *it > MAX_AT_ONE_PLACE) {
                return Err("it refers to itself in a way that multiplies with each level of a value".to_owned());
            }
            at_depth = next;
        }
        Ok(())
    }

    fn cost(&mut self, schema: &'a Value) -> Result<u64, String> {
        match self.costs.get(&id(schema)) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err("a $ref leads back to itself".to_owned()),
            None => {}
        }
        self.costs.insert(id(schema), None);
        let mut cost = 1_u64;
        for inner in self.same_place(schema)? {
            cost = cost.saturating_add(self.cost(inner)?);
        }
        self.costs.insert(id(schema), Some(cost));
        Ok(cost)
    }

    /// The subschemas that `schema` brings to bear on its own place.
    fn same_place(&self, schema: &'a Value) -> Result<Vec<&'a Value>, String> {
        let Some(object) = schema.as_object() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for keyword in SAME_PLACE.iter().filter(|it| **it != "$ref") {
            found.extend(children(object, keyword));
        }
        if let Some(reference) = object.get("$ref") {
            found.push(self.resolve(reference)?);
        }
        Ok(found)
    }

    fn resolve(&self, reference: &Value) -> Result<&'a Value, String> {
        let text = reference.as_str().unwrap_or_default();
        if !matches!(text.strip_prefix('#'), Some(pointer) if pointer.is_empty() || pointer.starts_with('/')) {
            return Err(format!("the reference '{text}' leads out of the schema: use '#/$defs/...'"));
        }
        lookup(self.root, text).ok_or_else(|| format!("the reference '{text}' leads nowhere"))
    }

    /// For each subschema, the places within a value that it speaks of, each with the subschemas that come to bear there.
    fn slots(&self, nodes: &[&'a Value]) -> Result<Vec<Vec<Vec<usize>>>, String> {
        let index: HashMap<Id, usize> = nodes.iter().enumerate().map(|(at, node)| (id(node), at)).collect();
        let mut all = Vec::with_capacity(nodes.len());
        let mut work = 0;
        for node in nodes {
            let mut slots: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
            let mut open = vec![*node];
            while let Some(schema) = open.pop() {
                work += 1;
                if work > 50 * MAX_AT_ONE_PLACE {
                    return Err("its $ref, allOf, anyOf or oneOf multiply without measure".to_owned());
                }
                open.extend(self.same_place(schema)?);
                let Some(object) = schema.as_object() else { continue };
                for keyword in WITHIN {
                    for (name, inner) in named_children(object, keyword) {
                        if let Some(at) = index.get(&id(inner)) {
                            slots.entry((keyword, name)).or_default().push(*at);
                        }
                    }
                }
            }
            all.push(slots.into_values().collect());
        }
        Ok(all)
    }
}

/// What a reference within a schema, such as `#/$defs/node`, leads to.
pub fn lookup<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?))
}

fn id(schema: &Value) -> Id {
    std::ptr::from_ref(schema)
}

fn children<'a>(object: &'a Map<String, Value>, keyword: &str) -> Vec<&'a Value> {
    named_children(object, keyword).into_iter().map(|(_, schema)| schema).collect()
}

/// The subschemas under a keyword, with the property they are for where it is a map of them.
fn named_children<'a>(object: &'a Map<String, Value>, keyword: &str) -> Vec<(&'a str, &'a Value)> {
    let maps = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
    match object.get(keyword) {
        Some(Value::Object(inner)) if maps.contains(&keyword) => {
            inner.iter().map(|(name, it)| (name.as_str(), it)).collect()
        }
        Some(Value::Array(items)) => items.iter().map(|it| ("", it)).collect(),
        Some(it @ (Value::Object(_) | Value::Bool(_))) => vec![("", it)],
        _ => Vec::new(),
    }
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(schema: &Value) -> String {
        check(schema).unwrap_err()
    }

    #[test]
    fn ordinary_schemas_are_taken() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
            json!({"$ref": "#/$defs/node", "$defs": {"node": {"properties": {
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                "all": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            }}}}),
            json!({"$defs": {"json": {"anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/json"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
            ]}}, "properties": {"any": {"$ref": "#/$defs/json"}}}),
            json!({"properties": {"$ref": {"type": "string"}, "a b": {"$ref": "#/properties/%24ref"}}}),
            json!(true),
        ] {
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn references_that_lead_out_nowhere_or_round_are_refused() {
        assert!(reason(&json!({"$ref": "https://example.com/s.json"})).contains("leads out"));
        assert!(reason(&json!({"$ref": "file:///etc/passwd"})).contains("leads out"));
        assert!(reason(&json!({"properties": {"a": {"$ref": "#/$defs/none"}}})).contains("leads nowhere"));
        assert!(reason(&json!({"$ref": "#"})).contains("back to itself"));
        assert!(reason(&json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})).contains("back"));
        assert!(reason(&json!({"$dynamicRef": "#node"})).contains("$dynamicRef"));
    }

    #[test]
    fn schemas_that_multiply_are_refused() {
        let mut definitions = Map::new();
        for level in 0..30 {
            let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
            definitions.insert(format!("l{level}"), json!({"allOf": [next, next]}));
        }
        definitions.insert("l30".to_owned(), json!({"type": "string"}));
        assert!(reason(&json!({"$defs": definitions, "$ref": "#/$defs/l0"})).contains("without measure"));
        let next = json!({"$ref": "#/$defs/n"});
        let doubling = json!({"$defs": {"n": {"anyOf": [{"properties": {"x": next}}, {"properties": {"x": next}}]}}});
        assert!(reason(&doubling).contains("each level"));
    }

    #[test]
    fn schemas_that_are_too_large_are_refused() {
        assert!(reason(&json!({"description": "x".repeat(MAX_SCHEMA_BYTES)})).contains("larger"));
        let many: Map<_, _> = (0..MAX_SUBSCHEMAS).map(|at| (at.to_string(), json!({}))).collect();
        assert!(reason(&json!({"properties": many})).contains("subschemas"));
        let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
        assert!(reason(&deep).contains("deeper"));
    }
}
