//! Reads any text as a raw call and as arguments without a schema. It is rejected, or becomes one JSON object that the
//! strict policy accepts unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use openskill_gateway::arguments::{Definition, Policy, Rules, read_tool_call};

fuzz_target!(|text: &str| {
    let no_schema = Definition::without_schema(Rules::default());
    if let Ok(prepared) = no_schema.prepare(text, Policy::Repair) {
        assert!(serde_json::from_str::<serde_json::Value>(&prepared.text).unwrap().is_object());
        let again = no_schema.prepare(&prepared.text, Policy::Strict).unwrap();
        assert!(again.repairs.is_empty() && again.text == prepared.text);
    }
    for skill in [None, Some("echo")] {
        if let Ok(call) = read_tool_call(text, skill) {
            assert!(call.skill.is_some() || skill.is_some());
            let _ = no_schema.prepare(&call.arguments, Policy::Repair);
        }
    }
});
