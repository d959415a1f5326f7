//! Property tests with generated calls and schemas.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::arguments::{Definition, Kind, Policy, Prepared, Rules, tool_call};

/// What generated schemas and calls consist of.
#[derive(Deserialize)]
struct Examples {
    /// Schemas of scalars.
    schemas: Vec<Value>,
    texts: Vec<String>,
}

static EXAMPLES: LazyLock<Examples> = LazyLock::new(|| serde_json::from_str(include_str!("properties.json")).unwrap());

/// Names that fold to the same key, are aliases of one another, or are wrapper keys.
const NAMES: [&str; 10] =
    ["max_steps", "maxSteps", "MaxSteps", "task", "query", "input", "arguments", "mode", "Mode", "note"];

fn name() -> impl Strategy<Value = String> {
    proptest::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
}

fn scalar_schema() -> impl Strategy<Value = Value> {
    proptest::sample::select(EXAMPLES.schemas.clone())
}

fn any_schema() -> impl Strategy<Value = Value> {
    scalar_schema().prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            object_schema(inner.clone()),
            (inner.clone(), inner).prop_map(|(one, other)| json!({"anyOf": [one, other]})),
        ]
    })
}

fn object_schema(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let properties = proptest::collection::vec((name(), inner, any::<bool>()), 0..5);
    let further =
        proptest::option::of(prop_oneof![Just(json!(true)), Just(json!(false)), Just(json!({"type": "integer"}))]);
    (properties, further).prop_map(|(properties, further)| {
        let required: std::collections::BTreeSet<_> =
            properties.iter().filter(|it| it.2).map(|it| it.0.clone()).collect();
        let properties: Map<_, _> = properties.into_iter().map(|(name, schema, _)| (name, schema)).collect();
        let mut schema = json!({"type": "object", "properties": properties, "required": required});
        if let Some(further) = further {
            schema["additionalProperties"] = further;
        }
        schema
    })
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        (-4_i8..4).prop_map(|it| json!(f64::from(it) + 0.5)),
        proptest::sample::select(EXAMPLES.texts.clone()).prop_map(Value::from),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name(), inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn call() -> impl Strategy<Value = Value> {
    let object =
        proptest::collection::vec((name(), any_value()), 0..4).prop_map(|it| it.into_iter().collect::<Value>());
    prop_oneof![8 => object, 1 => any_value()]
}

fn rules() -> impl Strategy<Value = Rules> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(drop_unknown, fill_defaults, aliased)| {
        let aliases = [("query".to_owned(), "task".to_owned())].into_iter().filter(|_| aliased).collect();
        Rules { drop_unknown, fill_defaults, aliases, ..Rules::default() }
    })
}

fn object() -> impl Strategy<Value = Value> {
    object_schema(any_schema())
}

/// Collects every scalar in a value, including those encoded in its strings.
fn leaves(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|it| leaves(it, found)),
        Value::Object(fields) => fields.values().for_each(|it| leaves(it, found)),
        other => {
            found.push(other.clone());
            if let Some(inner) = other
                .as_str()
                .filter(|it| it.len() > 1)
                .and_then(|it| crate::arguments::parse::lenient::parse_complete(it).ok())
            {
                leaves(&inner.0.to_value(), found);
            }
            let parts = other.as_str().into_iter().flat_map(|it| it.split(',')).map(str::trim);
            found.extend(parts.map(|part| serde_json::from_str(part).unwrap_or_else(|_| Value::from(part))));
        }
    }
}

/// Removes the values at JSON Pointers.
fn without(mut value: Value, pointers: &[String]) -> Value {
    for pointer in pointers {
        let (parent, name) = crate::arguments::tree::split(pointer).unwrap();
        value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(&name).unwrap();
    }
    value
}

fn letters(value: &Value) -> String {
    let is_number = value.is_number() || value.as_str().is_some_and(|it| it.parse::<f64>().is_ok());
    let counts = |it: &char| it.is_ascii_alphanumeric() || (is_number && matches!(it, '-' | '.'));
    value.to_string().chars().filter(counts).flat_map(char::to_lowercase).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prepared_arguments_are_valid_and_stable(schema in object(), call in call(), rules in rules()) {
        let definition = Definition::compile(&schema.to_string(), rules, &[]).unwrap();
        let text = call.to_string();
        let declared = crate::arguments::compile_schema(&schema).unwrap();
        let closed = crate::arguments::compile_schema(definition.schema().unwrap()).unwrap();
        let is_valid = call.is_object() && closed.is_valid(&call);
        match definition.prepare(&text, Policy::Repair) {
            Ok(Prepared { text: out, repairs, defaults, .. }) => {
                prop_assert_eq!(is_valid, repairs.is_empty(), "repaired if and only if it was invalid");
                let value: Value = serde_json::from_str(&out).unwrap();
                prop_assert!(!is_valid || out == text || !defaults.is_empty());
                prop_assert!(!is_valid || without(value.clone(), &defaults) == call, "{} {:?}", out, defaults);
                prop_assert!(closed.is_valid(&value) && declared.is_valid(&value), "{}", out);
                let again = definition.prepare(&out, Policy::Strict).unwrap();
                prop_assert!(again.repairs.is_empty() && again.text == out);
            }
            Err(_) => prop_assert!(!is_valid),
        }
        prop_assert_eq!(definition.prepare(&text, Policy::Strict).is_ok(), is_valid);
    }

    #[test]
    fn repairs_invent_no_value(schema in object(), call in call(), rules in rules()) {
        let definition = Definition::compile(&schema.to_string(), rules, &[]).unwrap();
        if let Ok(Prepared { text, repairs, defaults, .. }) = definition.prepare(&call.to_string(), Policy::Repair) {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            leaves(&call, &mut before);
            leaves(&without(serde_json::from_str(&text).unwrap(), &defaults), &mut after);
            let defaults = repairs.iter().filter(|it| it.kind == Kind::DefaultFilled);
            before.extend(defaults.filter_map(|it| serde_json::from_str(it.after.as_ref()?).ok()));
            for leaf in after {
                prop_assert!(before.iter().any(|it| letters(it) == letters(&leaf)), "{leaf} in {text} from {call}");
            }
        }
    }

    #[test]
    fn the_example_in_feedback_is_valid(schema in object(), call in call()) {
        let definition = Definition::compile(&schema.to_string(), Rules::default(), &[]).unwrap();
        if let Err(crate::arguments::Rejected::Unfit(feedback)) = definition.prepare(&call.to_string(), Policy::Repair) {
            prop_assert!(!feedback.violations.is_empty() && !feedback.message().is_empty());
            if let Some(example) = &feedback.example {
                prop_assert!(definition.prepare(&example.to_string(), Policy::Strict).is_ok(), "{}", example);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_rejected(text in "[ \\[\\]{}\"',:/*#a-e0-9.\\-\\\\nulTrueNonefals<>_`]{0,60}") {
        let definition = Definition::without_schema(Rules::default());
        if let Ok(prepared) = definition.prepare(&text, Policy::Repair) {
            let value: Value = serde_json::from_str(&prepared.text).unwrap();
            prop_assert!(value.is_object());
            prop_assert_eq!(prepared.repairs.is_empty(), prepared.text == text, "{}", prepared.text);
            prop_assert!(definition.prepare(&prepared.text, Policy::Strict).is_ok());
        }
        let _ = tool_call::read(&text, None);
        let _ = tool_call::read(&text, Some("echo"));
    }
}
