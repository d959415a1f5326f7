//! What a declared JSON Schema may be, so that checking a value against it takes bounded time whoever wrote it.
//!
//! Workers ask this of manifests, gateways of what workers send them. Regular expressions are not looked at here: both
//! sides compile them with an engine that takes linear time and bounded memory.

use std::collections::{HashMap, HashSet};

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
const MAX_AT_ONE_PLACE: u64 = 5_000;

/// How deep they may lead into one another there: validators recurse.
const MAX_CHAIN: usize = 128;

/// What `unevaluatedProperties` and `unevaluatedItems` cost: everything beside them is looked at again.
const UNEVALUATED_FACTOR: u64 = 3;

/// Keywords that hold schemas for the same place of the value; `$ref` beside them.
const SAME_PLACE: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/// Those for any key of an object, beside the one that `properties` names.
const ANY_KEY: [&str; 3] = ["patternProperties", "additionalProperties", "unevaluatedProperties"];

/// Those for items of an array: any of them may meet in one item.
const ITEMS: [&str; 5] = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];

/// Says why a schema can't be taken, or how many subschemas may come to bear on one place of a value at most.
///
/// # Errors
/// It is too large or too deep, refers to what is outside of it or to itself without end, or could take too long to
/// check a value against.
pub fn check(schema: &Value) -> Result<u64, String> {
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(format!("larger than {MAX_SCHEMA_BYTES} bytes"));
    }
    if json::depth(text.as_bytes()) > 2 * MAX_JSON_DEPTH {
        return Err(format!("deeper than {} levels", 2 * MAX_JSON_DEPTH));
    }
    let mut survey = Survey { root: schema, costs: HashMap::new(), nodes: Vec::new() };
    survey.collect()?;
    survey.check_growth()
}

/// Compiles a schema: draft 2020-12, or the draft that its `$schema` names. Nothing is fetched from anywhere, `format` is
/// an annotation, and regular expressions take time linear in the text: those with look-around or back-references are
/// refused.
///
/// # Errors
/// It is no schema, refers to what is not in it, or has a regular expression that can't be had in linear time.
pub fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options().offline().should_validate_formats(false).with_pattern_options(patterns);
    options.build(schema).map_err(|error| format!("no valid JSON Schema 2020-12: {error}"))
}

/// A subschema's identity: where it lies in memory. The schema is borrowed for as long as the survey lasts.
type Id = *const Value;

/// What a subschema brings to bear on its own place: how many, and how deep they lead into one another.
#[derive(Clone, Copy)]
struct Cost {
    count: u64,
    chain: usize,
}

struct Survey<'a> {
    root: &'a Value,
    /// None while it is being counted.
    costs: HashMap<Id, Option<Cost>>,
    nodes: Vec<&'a Value>,
}

impl<'a> Survey<'a> {
    /// Every subschema that a value may meet, also those that only a reference leads to.
    fn collect(&mut self) -> Result<(), String> {
        let mut seen = HashSet::new();
        let mut open = vec![self.root];
        while let Some(schema) = open.pop() {
            if !seen.insert(id(schema)) {
                continue;
            }
            if self.nodes.len() >= MAX_SUBSCHEMAS {
                return Err(format!("more than {MAX_SUBSCHEMAS} subschemas"));
            }
            self.nodes.push(schema);
            let Some(object) = schema.as_object() else { continue };
            for keyword in ["$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor"] {
                if object.contains_key(keyword) {
                    return Err(format!("{keyword} is not supported in a skill's schema: use $ref"));
                }
            }
            let renamed = ["$id", "$anchor"].iter().find(|keyword| object.get(**keyword).is_some_and(Value::is_string));
            if let Some(keyword) = renamed.filter(|_| !std::ptr::eq(schema, self.root)) {
                // References within would mean something else than they say.
                return Err(format!("{keyword} is only supported at the top of a skill's schema"));
            }
            open.extend(self.same_place(schema)?);
            let within = ANY_KEY.iter().chain(&ITEMS).chain(&["properties", "propertyNames", "$defs", "definitions"]);
            open.extend(within.flat_map(|keyword| children(object, keyword)));
        }
        Ok(())
    }

    /// Counts what comes to bear on one place, then how that multiplies from level to level of a value: an instance nests
    /// at most [`MAX_JSON_DEPTH`] deep.
    fn check_growth(&mut self) -> Result<u64, String> {
        let nodes = self.nodes.clone();
        let mut at_depth = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let cost = self.cost(node, 0)?;
            if cost.count > MAX_AT_ONE_PLACE {
                return Err("its $ref, allOf, anyOf or oneOf multiply without measure".to_owned());
            }
            at_depth.push(cost.count);
        }
        let places = self.places(&nodes)?;
        let mut most = at_depth.iter().copied().max().unwrap_or(1);
        for _ in 0..MAX_JSON_DEPTH {
            let sum = |place: &Vec<usize>| place.iter().fold(0_u64, |sum, it| sum.saturating_add(at_depth[*it]));
            let next: Vec<u64> = places.iter().map(|all| all.iter().map(sum).max().unwrap_or(0)).collect();
            most = most.max(next.iter().copied().max().unwrap_or(0));
            if most > MAX_AT_ONE_PLACE {
                return Err("it refers to itself in a way that multiplies with each level of a value".to_owned());
            }
            at_depth = next;
        }
        Ok(most)
    }

    fn cost(&mut self, schema: &'a Value, level: usize) -> Result<Cost, String> {
        match self.costs.get(&id(schema)) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err("a $ref leads back to itself".to_owned()),
            None => {}
        }
        let too_long = || format!("references lead more than {MAX_CHAIN} deep into one another");
        if level > MAX_CHAIN {
            return Err(too_long());
        }
        self.costs.insert(id(schema), None);
        let mut all = Cost { count: 1, chain: 1 };
        for inner in self.same_place(schema)? {
            let cost = self.cost(inner, level + 1)?;
            all.count = all.count.saturating_add(cost.count);
            all.chain = all.chain.max(cost.chain + 1);
        }
        if ["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| schema.get(*keyword).is_some()) {
            all.count = all.count.saturating_mul(UNEVALUATED_FACTOR);
        }
        if all.chain > MAX_CHAIN {
            return Err(too_long());
        }
        self.costs.insert(id(schema), Some(all));
        Ok(all)
    }

    /// The subschemas that `schema` brings to bear on its own place.
    fn same_place(&self, schema: &'a Value) -> Result<Vec<&'a Value>, String> {
        let Some(object) = schema.as_object() else { return Ok(Vec::new()) };
        let mut found: Vec<_> = SAME_PLACE.iter().flat_map(|keyword| children(object, keyword)).collect();
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

    /// For each subschema, the places within a value that it speaks of, each with the subschemas that may meet there.
    fn places(&self, nodes: &[&'a Value]) -> Result<Vec<Vec<Vec<usize>>>, String> {
        let index: HashMap<Id, usize> = nodes.iter().enumerate().map(|(at, node)| (id(node), at)).collect();
        let numbers = |schemas: Vec<&Value>| -> Vec<usize> {
            schemas.into_iter().filter_map(|it| index.get(&id(it)).copied()).collect()
        };
        let mut all = Vec::with_capacity(nodes.len());
        let mut work = 0;
        for node in nodes {
            let mut by_key: HashMap<&str, Vec<usize>> = HashMap::new();
            let (mut any_key, mut items, mut names) = (Vec::new(), Vec::new(), Vec::new());
            let mut open = vec![*node];
            while let Some(schema) = open.pop() {
                work += 1;
                if work > 200 * MAX_AT_ONE_PLACE {
                    return Err("its $ref, allOf, anyOf or oneOf multiply without measure".to_owned());
                }
                open.extend(self.same_place(schema)?);
                let Some(object) = schema.as_object() else { continue };
                for (name, inner) in named_children(object, "properties") {
                    by_key.entry(name).or_default().extend(index.get(&id(inner)));
                }
                any_key.extend(ANY_KEY.iter().flat_map(|keyword| numbers(children(object, keyword))));
                items.extend(ITEMS.iter().flat_map(|keyword| numbers(children(object, keyword))));
                names.extend(numbers(children(object, "propertyNames")));
            }
            let mut places: Vec<Vec<usize>> = by_key.into_values().map(|own| [&own[..], &any_key].concat()).collect();
            places.extend([any_key, items, names]);
            all.push(places);
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
    let maps = ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];
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
            assert!(check(&schema).is_ok_and(|most| most < 50), "{schema}: {:?}", check(&schema));
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
        let n = json!({"$ref": "#/$defs/n"});
        for doubling in [
            json!({"anyOf": [{"properties": {"x": n}}, {"properties": {"x": n}}]}),
            json!({"patternProperties": {"a": n, "^a": n}}),
            json!({"properties": {"a": n}, "additionalProperties": false, "dependencies": {"a": {"properties": {"a": n}}}}),
            json!({"items": n, "contains": n}),
        ] {
            let schema = json!({"$defs": {"n": doubling}, "$ref": "#/$defs/n"});
            assert!(reason(&schema).contains("each level"), "{schema}");
        }
        let hidden = json!({"$ref": "#/x-defs/n", "x-defs": {"n": {"items": {"$ref": "#/x-defs/n"}, "contains": {"$ref": "#/x-defs/n"}}}});
        assert!(reason(&hidden).contains("each level"));
        let unevaluated = (0..20).fold(json!({}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}));
        assert!(reason(&unevaluated).contains("without measure"));
    }

    #[test]
    fn long_chains_and_names_that_change_their_meaning_are_refused() {
        let chain: Map<_, _> =
            (0..1000).map(|at| (format!("a{at}"), json!({"$ref": format!("#/$defs/a{}", at + 1)}))).collect();
        let mut chain = json!({"$defs": chain, "$ref": "#/$defs/a0"});
        chain["$defs"]["a1000"] = json!({});
        assert!(reason(&chain).contains("deep into one another"));
        assert!(reason(&json!({"properties": {"a": {"$id": "urn:x", "$ref": "#/b"}}})).contains("$id"));
        assert!(check(&json!({"$id": "urn:x", "properties": {"$id": {"type": "string"}}})).is_ok());
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
