//! Limits the JSON Schemas that a skill may declare, so that validation takes bounded time, no matter who wrote
//! the schema.
//!
//! Workers check manifests, and gateways check what workers send. Regular expressions are not examined here: both
//! sides compile them with an engine that takes linear time and bounded memory.

use std::collections::{HashMap, HashSet};

use jsonschema::error::ValidationErrorKind;
use openskill_proto::json;
use openskill_proto::limits::MAX_JSON_DEPTH;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The maximum size of a schema, in bytes of JSON text.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// The maximum number of subschemas in a schema.
pub const MAX_SUBSCHEMAS: usize = 10_000;

/// The maximum size of a compiled regular expression, and of its lazy automaton, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// The maximum number of subschemas that apply to one location of a value. `$ref`, `allOf` and similar keywords
/// multiply: twelve definitions that each name the next one three times expand to half a million.
const MAX_AT_ONE_LOCATION: u64 = 5_000;

/// The maximum nesting depth of these subschemas. Validators recurse once for each of them at each level of a
/// value.
const MAX_CHAIN: usize = 32;

/// The maximum number of steps of the check itself.
const MAX_WORK: usize = 2_000_000;

/// The cost of `unevaluatedProperties` and `unevaluatedItems`: a validator evaluates their sibling keywords again.
const UNEVALUATED_FACTOR: u64 = 3;

/// Keywords whose subschemas apply to the same location of the value, besides `$ref`.
const SAME_LOCATION: [&str; 9] =
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/// Keywords for object keys that `properties` does not name. `patternProperties` may apply to any key.
const OTHER_KEYS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// Keywords for array items beyond `prefixItems`. `contains` may apply to any item.
const OTHER_ITEMS: [&str; 3] = ["items", "additionalItems", "unevaluatedItems"];

/// Whether the value of a keyword is a map of named subschemas.
pub fn is_map(keyword: &str) -> bool {
    ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"].contains(&keyword)
}

/// Whether the value of a keyword is a subschema or a list of subschemas.
pub(crate) fn is_applicator(keyword: &str) -> bool {
    let others = ["propertyNames", "prefixItems", "contains"];
    [&SAME_LOCATION[..], &OTHER_KEYS, &OTHER_ITEMS, &others].iter().any(|all| all.contains(&keyword))
}

/// The minimum nesting depth of arguments at which a schema that multiplies with each level is still accepted.
const MIN_DEPTH: usize = 8;

/// Limits on the cost of validating a value against a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidationBounds {
    /// The maximum number of subschemas that apply to one location of a value.
    pub at_one_location: u64,
    /// The nesting depth of a value up to which that limit is valid: [`MAX_JSON_DEPTH`], unless the schema
    /// multiplies with each level.
    pub depth: usize,
}

/// Limits the cost of validating a value against a schema.
///
/// # Errors
/// The reason why the schema is rejected: it is too large or too deep, refers to something outside of it or
/// endlessly to itself, or could make validation too slow.
pub fn check(schema: &Value) -> Result<ValidationBounds, String> {
    check_size(schema)?;
    let mut survey = SchemaSurvey { root: schema, costs: HashMap::new() };
    let nodes = survey.collect()?;
    survey.check_growth(&nodes)
}

/// Checks the length and the depth of a schema.
pub(crate) fn check_size(schema: &Value) -> Result<(), String> {
    let text = schema.to_string();
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(format!("it is larger than {MAX_SCHEMA_BYTES} bytes"));
    }
    if json::depth(text.as_bytes()) > 2 * MAX_JSON_DEPTH {
        return Err(format!("it is deeper than {} levels", 2 * MAX_JSON_DEPTH));
    }
    Ok(())
}

/// Compiles a schema: draft 2020-12, or the draft that its `$schema` names. Fetches nothing, treats `format` as an
/// annotation, and matches regular expressions in time linear in the text.
///
/// # Errors
/// The schema is invalid, refers to something outside of it, or has a regular expression with look-around or
/// back-references, which cannot be matched in linear time.
pub fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    let patterns = jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let options = jsonschema::options().offline().should_validate_formats(false).with_pattern_options(patterns);
    options.build(schema).map_err(|error| match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => {
            let pattern: String = error.instance().to_string().chars().take(200).collect();
            format!(
                "the regex {pattern} can't be used: it has look-around or back-references, is too large, or is invalid"
            )
        }
        _ => format!("it is not a valid JSON Schema: {error}"),
    })
}

/// A subschema's identity: its address, which is stable because the schema is borrowed.
pub(crate) type Id = *const Value;

/// The number of subschemas that a subschema applies to its own location, and their nesting depth.
#[derive(Clone, Copy)]
struct Cost {
    count: u64,
    chain: usize,
}

/// Walks a schema and counts the cost of its subschemas.
struct SchemaSurvey<'a> {
    root: &'a Value,
    /// The costs counted so far. `None` marks a subschema that is being counted.
    costs: HashMap<Id, Option<Cost>>,
}

impl<'a> SchemaSurvey<'a> {
    /// Collects every subschema that may apply to a value, including those that only a reference reaches.
    fn collect(&self) -> Result<Vec<&'a Value>, String> {
        let (mut nodes, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![self.root]);
        while let Some(schema) = open.pop() {
            if !seen.insert(id(schema)) {
                continue;
            }
            if nodes.len() >= MAX_SUBSCHEMAS {
                return Err(format!("it has more than {MAX_SUBSCHEMAS} subschemas"));
            }
            nodes.push(schema);
            let Some(object) = schema.as_object() else { continue };
            for keyword in ["$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor"] {
                if object.contains_key(keyword) {
                    return Err(format!("{keyword} is not supported in a skill's schema: use $ref"));
                }
            }
            if object.get("$id").is_some_and(Value::is_string) && !std::ptr::eq(schema, self.root) {
                // References below `$id` would resolve against another base. An `$anchor` is only a name, and a
                // reference to it does not resolve here.
                return Err("$id is only supported at the top of a skill's schema".to_owned());
            }
            let keywords = object.keys().filter(|it| is_map(it) || is_applicator(it));
            open.extend(keywords.flat_map(|keyword| children(object, keyword)));
            if let Some(reference) = object.get("$ref") {
                open.push(self.resolve(reference)?);
            }
        }
        Ok(nodes)
    }

    /// Counts the subschemas for one location, then the multiplication of that number from level to level of a
    /// value, which nests at most [`MAX_JSON_DEPTH`] deep.
    fn check_growth(&mut self, nodes: &[&'a Value]) -> Result<ValidationBounds, String> {
        let mut at_depth = Vec::with_capacity(nodes.len());
        for node in nodes {
            let cost = self.cost(node, 0)?;
            if cost.count > MAX_AT_ONE_LOCATION {
                return Err("its $ref, allOf, anyOf or oneOf multiply without bound".to_owned());
            }
            at_depth.push(cost.count);
        }
        let locations = self.locations(nodes)?;
        let mut most = at_depth.iter().copied().max().unwrap_or(1);
        for depth in 0..MAX_JSON_DEPTH {
            let sum = |location: &Vec<usize>| location.iter().fold(0_u64, |sum, it| sum.saturating_add(at_depth[*it]));
            let next: Vec<u64> = locations.iter().map(|all| all.iter().map(sum).max().unwrap_or(0)).collect();
            let widest = next.iter().copied().max().unwrap_or(0);
            if widest > MAX_AT_ONE_LOCATION && depth < MIN_DEPTH {
                return Err("it refers to itself in a way that multiplies with each level of a value".to_owned());
            }
            if widest > MAX_AT_ONE_LOCATION {
                return Ok(ValidationBounds { at_one_location: most, depth });
            }
            most = most.max(widest);
            at_depth = next;
        }
        Ok(ValidationBounds { at_one_location: most, depth: MAX_JSON_DEPTH })
    }

    fn cost(&mut self, schema: &'a Value, level: usize) -> Result<Cost, String> {
        match self.costs.get(&id(schema)) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err("a $ref refers back to itself".to_owned()),
            None => {}
        }
        let too_long = || format!("references are nested more than {MAX_CHAIN} deep");
        if level > MAX_CHAIN {
            return Err(too_long());
        }
        self.costs.insert(id(schema), None);
        let mut all = Cost { count: 1, chain: 1 };
        for inner in self.same_location(schema)? {
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

    /// Returns the subschemas that `schema` applies to its own location.
    fn same_location(&self, schema: &'a Value) -> Result<Vec<&'a Value>, String> {
        let Some(object) = schema.as_object() else { return Ok(Vec::new()) };
        let mut found: Vec<_> = SAME_LOCATION.iter().flat_map(|keyword| children(object, keyword)).collect();
        if let Some(reference) = object.get("$ref") {
            found.push(self.resolve(reference)?);
        }
        Ok(found)
    }

    fn resolve(&self, reference: &Value) -> Result<&'a Value, String> {
        let text = reference.as_str().unwrap_or_default();
        if !text.starts_with('#') {
            return Err(format!("the reference '{text}' points outside of the schema: use '#/$defs/...'"));
        }
        lookup(self.root, text).ok_or_else(|| format!("the reference '{text}' does not resolve"))
    }

    /// Returns the child locations that each subschema constrains, each with the subschemas that may apply there.
    fn locations(&self, nodes: &[&'a Value]) -> Result<Vec<Vec<Vec<usize>>>, String> {
        let index: HashMap<Id, usize> = nodes.iter().enumerate().map(|(at, node)| (id(node), at)).collect();
        let mut work = 0;
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut here: Vec<&Map<String, Value>> = Vec::new();
            let mut open = vec![*node];
            while let Some(schema) = open.pop() {
                work += 1;
                open.extend(self.same_location(schema)?);
                here.extend(schema.as_object());
            }
            let keys: HashSet<&str> =
                here.iter().flat_map(|object| named_children(object, "properties")).map(|(name, _)| name).collect();
            let indexes = here.iter().map(|object| children(object, "prefixItems").len()).max().unwrap_or(0);
            work += here.len() * (keys.len() + indexes);
            if work > MAX_WORK {
                return Err("its $ref, allOf, anyOf or oneOf multiply without bound".to_owned());
            }
            let numbers = |found: Vec<&Value>| -> Vec<usize> {
                found.into_iter().filter_map(|it| index.get(&id(it)).copied()).collect()
            };
            let meet = |of_object: &dyn Fn(&'a Map<String, Value>) -> Vec<&'a Value>| -> Vec<usize> {
                here.iter().flat_map(|object| numbers(of_object(object))).collect()
            };
            let mut locations: Vec<Vec<usize>> =
                keys.iter().map(|key| meet(&|object| at_key(object, Some(key)))).collect();
            locations.push(meet(&|object| at_key(object, None)));
            locations.extend((0..=indexes).map(|at| meet(&|object| at_index(object, at))));
            locations.push(meet(&|object| children(object, "propertyNames")));
            all.push(locations);
        }
        Ok(all)
    }
}

/// Returns the subschemas of an object schema for the value at a key. `None` stands for a key that the schema does
/// not name.
fn at_key<'a>(object: &'a Map<String, Value>, key: Option<&str>) -> Vec<&'a Value> {
    let own = key.and_then(|key| object.get("properties")?.get(key));
    let others = OTHER_KEYS.iter().filter(|_| own.is_none()).flat_map(|keyword| children(object, keyword));
    own.into_iter().chain(others).chain(children(object, "patternProperties")).collect()
}

/// Returns the subschemas of an array schema for the item at an index.
fn at_index(object: &Map<String, Value>, index: usize) -> Vec<&Value> {
    let own = children(object, "prefixItems").get(index).copied();
    let others = OTHER_ITEMS.iter().filter(|_| own.is_none()).flat_map(|keyword| children(object, keyword));
    own.into_iter().chain(others).chain(children(object, "contains")).collect()
}

/// Resolves a reference within a schema, such as `#/$defs/node`.
pub fn lookup<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&percent_decode(reference.strip_prefix('#')?))
}

/// Appends `key` to the JSON Pointer `parent`.
pub fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

pub(crate) fn id(schema: &Value) -> Id {
    std::ptr::from_ref(schema)
}

/// Returns the subschemas of a schema, each with its keyword.
pub fn subschemas_mut(schema: &mut Map<String, Value>) -> impl Iterator<Item = (&str, &mut Value)> {
    schema.iter_mut().flat_map(|(keyword, value)| {
        let keyword = keyword.as_str();
        let found: Vec<&mut Value> = match (value, is_map(keyword), is_applicator(keyword)) {
            (Value::Object(by_name), true, _) => by_name.values_mut().collect(),
            (Value::Array(items), _, true) => items.iter_mut().collect(),
            (one, _, true) => vec![one],
            _ => Vec::new(),
        };
        found.into_iter().map(move |it| (keyword, it))
    })
}

/// Returns the subschemas under a keyword.
pub fn children<'a>(object: &'a Map<String, Value>, keyword: &str) -> Vec<&'a Value> {
    named_children(object, keyword).into_iter().map(|(_, schema)| schema).collect()
}

/// Returns the subschemas under a keyword, each with its property name if the keyword's value is a map.
fn named_children<'a>(object: &'a Map<String, Value>, keyword: &str) -> Vec<(&'a str, &'a Value)> {
    match object.get(keyword) {
        Some(Value::Object(inner)) if is_map(keyword) => inner.iter().map(|(name, it)| (name.as_str(), it)).collect(),
        Some(Value::Array(items)) => items.iter().map(|it| ("", it)).collect(),
        Some(it @ (Value::Object(_) | Value::Bool(_))) => vec![("", it)],
        _ => Vec::new(),
    }
}

/// Decodes the fragment of a URI.
pub fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(schema: &Value) -> String {
        check(schema).unwrap_err()
    }

    #[test]
    fn ordinary_schemas_are_accepted() {
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
            assert!(
                check(&schema).is_ok_and(|it| it.at_one_location < 50 && it.depth == MAX_JSON_DEPTH),
                "{schema}: {:?}",
                check(&schema)
            );
        }
    }

    #[test]
    fn external_unresolved_and_circular_references_are_rejected() {
        assert!(reason(&json!({"$ref": "https://example.com/s.json"})).contains("points outside"));
        assert!(reason(&json!({"$ref": "file:///etc/passwd"})).contains("points outside"));
        assert!(reason(&json!({"properties": {"a": {"$ref": "#/$defs/none"}}})).contains("does not resolve"));
        assert!(reason(&json!({"$ref": "#"})).contains("back to itself"));
        assert!(reason(&json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})).contains("back"));
        assert!(reason(&json!({"$dynamicRef": "#node"})).contains("$dynamicRef"));
    }

    #[test]
    fn schemas_that_multiply_are_rejected() {
        let mut definitions = Map::new();
        for level in 0..12 {
            let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
            definitions.insert(format!("l{level}"), json!({"allOf": [next, next, next]}));
        }
        definitions.insert("l12".to_owned(), json!({"type": "string"}));
        assert!(reason(&json!({"$defs": definitions, "$ref": "#/$defs/l0"})).contains("without bound"));
        let n = json!({"$ref": "#/$defs/n"});
        let of = |definition: Value| json!({"$defs": {"n": definition}, "$ref": "#/$defs/n"});
        for doubling in [
            json!({"anyOf": [{"properties": {"x": n}}, {"properties": {"x": n}}]}),
            json!({"patternProperties": {"a": n, "^a": n}}),
            json!({"properties": {"a": n}, "additionalProperties": false, "dependencies": {"a": {"properties": {"a": n}}}}),
            json!({"items": n, "contains": n}),
        ] {
            let bounds = check(&of(doubling.clone())).unwrap();
            assert!((8..20).contains(&bounds.depth), "{doubling}: {bounds:?}");
        }
        let many: Vec<_> = (0..20).map(|_| json!({"items": n})).collect();
        assert!(reason(&of(json!({"anyOf": many}))).contains("each level"));
        let hidden = json!({"$ref": "#/x-defs/n", "x-defs": {"n": {"items": {"$ref": "#/x-defs/n"}, "contains": {"$ref": "#/x-defs/n"}}}});
        assert!(check(&hidden).unwrap().depth < 20);
        for plain in [
            json!({"properties": {"default": n}, "additionalProperties": n}),
            json!({"anyOf": [{"type": "number"}, {"type": "array", "prefixItems": [{"type": "string"}, n, n]}]}),
        ] {
            assert_eq!(check(&of(plain.clone())).unwrap().depth, MAX_JSON_DEPTH, "{plain}");
        }
        let unevaluated = (0..20).fold(json!({}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}));
        assert!(reason(&unevaluated).contains("without bound"));
    }

    #[test]
    fn long_chains_and_nested_ids_are_rejected() {
        let chain: Map<_, _> =
            (0..1000).map(|at| (format!("a{at}"), json!({"$ref": format!("#/$defs/a{}", at + 1)}))).collect();
        let mut chain = json!({"$defs": chain, "$ref": "#/$defs/a0"});
        chain["$defs"]["a1000"] = json!({});
        assert!(reason(&chain).contains("are nested more than"));
        assert!(reason(&json!({"properties": {"a": {"$id": "urn:x", "$ref": "#/b"}}})).contains("$id"));
        let anchored =
            |reference: &str| json!({"$defs": {"a": {"$anchor": "it"}}, "properties": {"a": {"$ref": reference}}});
        assert!(check(&anchored("#/$defs/a")).is_ok());
        assert!(check(&anchored("#it")).is_err());
        assert!(check(&json!({"$id": "urn:x", "properties": {"$id": {"type": "string"}}})).is_ok());
    }

    #[test]
    fn schemas_that_are_too_large_are_rejected() {
        assert!(reason(&json!({"description": "x".repeat(MAX_SCHEMA_BYTES)})).contains("larger"));
        let many: Map<_, _> = (0..MAX_SUBSCHEMAS).map(|at| (at.to_string(), json!({}))).collect();
        assert!(reason(&json!({"properties": many})).contains("subschemas"));
        let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
        assert!(reason(&deep).contains("deeper"));
    }
}
