//! Generates schemas of every draft from a seed. Checks that they accept the same values after translation, and
//! that their exports are valid for each provider's documented subset.

use jsonschema::draft202012;
use openskill_redact::testing::Random;
use openskill_skill::draft::to_2020_12;
use openskill_skill::schema::{compile, lookup, subschemas_mut};
use serde_json::Map;

use super::*;

const SCHEMAS_PER_DRAFT: u64 = 400;
const VALUES_PER_SCHEMA: usize = 12;

const DRAFTS: [&str; 5] = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

/// Generates schemas and values from a seed.
struct Maker {
    random: Random,
    /// An index of [`DRAFTS`].
    draft: usize,
}

impl Maker {
    fn new(seed: u64, draft: usize) -> Self {
        Self { random: Random::new(seed), draft }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn pick(&mut self, options: &[Value]) -> Value {
        options[self.below(options.len())].clone()
    }

    fn name(&mut self) -> String {
        ["a", "b", "c d", "additionalProperties"][self.below(4)].to_owned()
    }

    fn arguments(&mut self) -> Value {
        let mut schema = self.object(3);
        let shared = self.schema(1);
        let definitions = if self.draft < 3 { "definitions" } else { "$defs" };
        schema["$schema"] = DRAFTS[self.draft].into();
        schema[definitions] = json!({ "shared part": shared });
        if self.below(4) == 0 {
            let kind = self.pick(&[json!("anyOf"), json!("oneOf"), json!("allOf")]);
            let branches =
                [self.object(1), json!({"properties": {"e": {"$ref": format!("#/{}/0", kind.as_str().unwrap())}}})];
            schema[kind.as_str().unwrap()] = json!(branches);
        }
        schema
    }

    fn schema(&mut self, depth: usize) -> Value {
        let definitions = if self.draft < 3 { "definitions" } else { "$defs" };
        match self.below(if depth == 0 { 8 } else { 15 }) {
            0 => json!({"type": "string", "minLength": 1, "title": "T", "format": "email"}),
            1 => self.bounded(),
            2 => {
                self.pick(&[json!({"type": "boolean", "default": null}), json!({"type": "number", "multipleOf": 0.5})])
            }
            3 => json!({"enum": ["x", null]}),
            4 => {
                json!({"anyOf": [{"type": "string", "enum": ["x", "y"]}, {"type": "null"}], "default": null, "title": "C"})
            }
            5 => json!({"type": ["string", "null"], "pattern": "^x"}),
            6 if self.draft > 0 => self.pick(&[json!({"const": "x"}), json!({"const": 1}), json!(true)]),
            6 => json!({"type": "string", "const": "in draft 4 this means nothing"}),
            7 => json!({"enum": ["x", 1, ""]}),
            8 => self.tuple(depth - 1),
            9 => json!({"type": "array", "items": self.schema(depth - 1), "minItems": 1, "uniqueItems": true}),
            10 | 11 => self.object(depth - 1),
            12 if depth > 1 => json!({"$ref": format!("#/{definitions}/shared%20part"), "minLength": 3}),
            12 => json!({"not": self.schema(depth - 1)}),
            13 => json!({"oneOf": [self.schema(depth - 1), self.schema(depth - 1)]}),
            _ => json!({"allOf": [self.schema(depth - 1)], "if": self.schema(0), "then": {"type": "string"}}),
        }
    }

    fn bounded(&mut self) -> Value {
        let exclusive = self.below(2) == 0;
        match self.draft {
            0 => {
                json!({"type": "integer", "minimum": 1, "exclusiveMinimum": exclusive, "maximum": 3, "exclusiveMaximum": true})
            }
            _ => json!({"type": "integer", "minimum": 0, "exclusiveMinimum": 1, "exclusiveMaximum": 3}),
        }
    }

    fn tuple(&mut self, depth: usize) -> Value {
        let (positions, rest) = (json!([self.schema(depth), self.schema(depth)]), self.below(3));
        let (tuple, others) = if self.draft < 4 { ("items", "additionalItems") } else { ("prefixItems", "items") };
        let mut schema = json!({"type": "array"});
        schema[tuple] = positions;
        match rest {
            0 => schema[others] = json!(false),
            1 => schema[others] = json!({"type": "integer"}),
            _ => {}
        }
        schema
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut properties = Map::new();
        for _ in 0..1 + self.below(3) {
            let name = self.name();
            properties.insert(name, if depth == 0 { json!({"type": "string"}) } else { self.schema(depth - 1) });
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if self.below(2) == 0 {
            schema["required"] = json!([self.name()]);
        }
        match self.below(5) {
            0 => schema["additionalProperties"] = json!(false),
            1 => schema["additionalProperties"] = json!({"type": "integer"}),
            2 if self.draft < 4 => schema["dependencies"] = json!({"a": ["b"], "b": {"minProperties": 2}}),
            2 => schema["dependentRequired"] = json!({"a": ["b"]}),
            3 => schema["patternProperties"] = json!({"^a": self.schema(0)}),
            _ => {}
        }
        schema
    }

    /// Omits numbers such as 1.0, which draft 4 treats differently.
    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 9 } else { 14 }) {
            0 => json!(null),
            1 => json!(true),
            2 => json!(1.5),
            3 | 4 => json!(self.below(4)),
            5 => json!(""),
            6..=8 => self.pick(&[json!("x"), json!("y"), json!("xyz")]),
            9 | 10 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let fields = (0..self.below(4)).map(|_| (self.name(), self.value(depth - 1)));
                Value::Object(fields.collect())
            }
        }
    }
}

#[test]
fn a_translated_schema_decides_as_the_original_does() {
    for (draft, uri) in DRAFTS.iter().enumerate() {
        let mut verdicts = [0; 2];
        for seed in 0..SCHEMAS_PER_DRAFT {
            let mut maker = Maker::new(seed, draft);
            let schema = maker.arguments();
            let translated = to_2020_12(&schema).unwrap();
            let (own, new) = (compile(&schema).unwrap(), compile(&translated).unwrap());
            for _ in 0..VALUES_PER_SCHEMA {
                let value = maker.value(3);
                let expected = own.is_valid(&value);
                verdicts[usize::from(expected)] += 1;
                assert_eq!(new.is_valid(&value), expected, "{value}\n{schema}\n{translated}");
            }
        }
        assert!(verdicts.iter().all(|count| *count > 20), "{uri}: {verdicts:?}");
    }
}

#[test]
fn every_export_is_valid_for_its_provider() {
    for draft in 0..DRAFTS.len() {
        for seed in 0..SCHEMAS_PER_DRAFT {
            let schema = Maker::new(seed, draft).arguments();
            let definition = match Definition::compile(&schema.to_string(), Rules::default(), &[]) {
                Ok(definition) => definition,
                // A reference may refer to its own location.
                Err(refused) => {
                    assert!(refused.to_string().contains("back to itself"), "{refused}: {schema}");
                    continue;
                }
            };
            for (dialect, strict) in Dialect::ALL.into_iter().flat_map(|dialect| [(dialect, false), (dialect, true)]) {
                let exported = read(&export(&[tool("it", definition.schema().unwrap())], dialect, strict).tools[0]);
                let problems = problems(&exported, dialect);
                assert!(problems.is_empty(), "{dialect:?}: {problems:?}\n{exported}\n{schema}");
            }
        }
    }
}

/// Returns what a provider would refuse in a tool.
fn problems(tool: &Value, dialect: Dialect) -> Vec<String> {
    let function = tool.get("function").unwrap_or(tool);
    let Some(schema) = ["parameters", "input_schema", "inputSchema"].iter().find_map(|it| function.get(*it)) else {
        return Vec::new();
    };
    let strict = function.get("strict") == Some(&Value::Bool(true));
    let mut problems: Vec<String> = draft202012::meta::validate(schema).err().iter().map(ToString::to_string).collect();
    let mut open = vec![schema.clone()];
    while let Some(mut subschema) = open.pop() {
        problems.extend(own_problems(&subschema, schema, dialect, strict));
        open.extend(subschema.as_object_mut().into_iter().flat_map(subschemas_mut).map(|(_, it)| it.clone()));
    }
    let is_root_choice = ["anyOf", "oneOf", "allOf", "$ref"].iter().any(|it| schema.get(*it).is_some());
    if schema["type"] != "object" || (dialect != Dialect::Mcp && is_root_choice) {
        problems.push("it is not a plain object".to_owned());
    }
    problems
}

fn own_problems(schema: &Value, root: &Value, dialect: Dialect, strict: bool) -> Vec<String> {
    let Some(object) = schema.as_object() else { return Vec::new() };
    let mut problems = Vec::new();
    let mut check = |is_wrong: bool, what: &str| problems.extend(is_wrong.then(|| format!("{what}: {schema}")));
    if let Some(Value::String(text)) = object.get("$ref") {
        check(lookup(root, text).is_none(), "dangling");
    }
    // Deliberately not taken from `Subset`, which is under test.
    let common = "type title description properties required items enum format minItems";
    let more = match dialect {
        Dialect::Mcp => return problems,
        Dialect::Anthropic if !strict => {
            check(object.contains_key("$schema"), "$schema");
            return problems;
        }
        Dialect::Anthropic => "additionalProperties anyOf const default",
        Dialect::OpenAi | Dialect::OpenAiResponses => {
            "additionalProperties anyOf const pattern multipleOf maxItems \
             minimum maximum exclusiveMinimum exclusiveMaximum"
        }
        Dialect::Gemini => "propertyOrdering minimum maximum maxItems",
        Dialect::DashScope => "additionalProperties minimum maximum maxItems",
    };
    let is_known = |keyword: &str| common.split(' ').chain(more.split(' ')).any(|known| known == keyword);
    for keyword in object.keys().filter(|keyword| !is_known(keyword)) {
        check(true, keyword);
    }
    if dialect == Dialect::Gemini {
        let values = object.get("enum").and_then(Value::as_array);
        check(!schema["type"].is_string(), "not a single type");
        check(values.is_some_and(|it| it.iter().any(|it| it.as_str().is_none_or(str::is_empty))), "enum");
    }
    if strict && let Some(properties) = object.get("properties").and_then(Value::as_object) {
        let required = schema["required"].as_array().map_or(0, Vec::len);
        check(schema["additionalProperties"] != false, "open");
        check(dialect != Dialect::Anthropic && required != properties.len(), "optional");
    }
    problems
}
