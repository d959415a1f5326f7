//! Any text, read as a raw call and as arguments without a schema: it is refused, or becomes one JSON object that a strict
//! reading takes as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use openskill_gateway::arguments::{Definition, Policy, Rules, read_tool_call};

fuzz_target!(|text: &str| {
    let anything = Definition::without_schema(Rules::default());
    if let Ok(prepared) = anything.prepare(text, Policy::Repair) {
        assert!(serde_json::from_str::<serde_json::Value>(&prepared.text).unwrap().is_object());
        let again = anything.prepare(&prepared.text, Policy::Strict).unwrap();
        assert!(again.repairs.is_empty() && again.text == prepared.text);
    }
    for skill in [None, Some("echo")] {
        if let Ok(call) = read_tool_call(text, skill) {
            assert!(call.skill.is_some() || skill.is_some());
            let _ = anything.prepare(&call.arguments, Policy::Repair);
        }
    }
});
