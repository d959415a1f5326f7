//! Preserves the targets of references into parts that were removed from the top level.

use std::collections::HashSet;

use openskill_skill::schema::{lookup, percent_decode, subschemas_mut};
use serde_json::{Map, Value, json};

/// Adds a definition with the keywords of `original` that references in `schema` can no longer find, and redirects
/// the references to it.
pub(super) fn keep(original: &Value, schema: &mut Value) {
    let keywords = original.as_object().map_or(0, Map::len);
    let Some(name) = (0..).map(|at| format!("top{at}")).find(|name| schema["$defs"].get(name).is_none()) else {
        return;
    };
    // Added keywords may in turn refer to removed parts.
    for _ in 0..keywords {
        let mut dangling = HashSet::new();
        for_each_reference(schema, &mut |text| dangling.extend([text.clone()]));
        dangling.retain(|text| lookup(schema, text).is_none() && lookup(original, text).is_some());
        if dangling.is_empty() {
            return;
        }
        let Some(object) = schema.as_object_mut() else { return };
        let definitions = object.entry("$defs").or_insert_with(|| json!({})).as_object_mut();
        let Some(kept) = definitions.and_then(|it| it.entry(&name).or_insert_with(|| json!({})).as_object_mut()) else {
            return;
        };
        for keyword in dangling.iter().filter_map(|text| text.strip_prefix("#/")?.split('/').next()) {
            let keyword = percent_decode(keyword);
            if let Some(removed) = original.get(&keyword).filter(|_| !kept.contains_key(&keyword)) {
                let mut copy = json!({ keyword: removed });
                // The schema may still contain the original, and an anchor must be unique.
                for_each_subschema(&mut copy, &mut |object| drop(object.shift_remove("$anchor")));
                kept.extend(copy.as_object().cloned().unwrap_or_default());
            }
        }
        for_each_reference(schema, &mut |text| {
            if dangling.contains(text) {
                text.replace_range(..1, &format!("#/$defs/{name}"));
            }
        });
    }
}

fn for_each_reference(schema: &mut Value, change: &mut dyn FnMut(&mut String)) {
    for_each_subschema(schema, &mut |object| {
        if let Some(Value::String(text)) = object.get_mut("$ref") {
            change(text);
        }
    });
}

fn for_each_subschema(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Some(object) = schema.as_object_mut() else { return };
    change(object);
    subschemas_mut(object).for_each(|(_, inner)| for_each_subschema(inner, change));
}
