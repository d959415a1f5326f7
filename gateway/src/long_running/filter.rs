//! Parses the filter of a list: `field = value`, joined with `AND`.

use openskill_proto::v1::OperationState;
use openskill_store::operation::{OperationFilter, State};

/// Parses a filter. An empty one accepts all operations.
///
/// # Errors
/// Returns what is wrong with it.
pub(super) fn parse(text: &str) -> Result<OperationFilter, String> {
    let mut filter = OperationFilter::default();
    if text.trim().is_empty() {
        return Ok(filter);
    }
    let mut seen = Vec::new();
    for condition in text.split(" AND ") {
        let (field, value) = condition.split_once('=').ok_or_else(|| unknown(condition))?;
        let (field, value) = (field.trim(), value.trim().trim_matches('"'));
        // Both say where an operation is.
        let subject = if field == "done" { "state" } else { field };
        if value.is_empty() || value.chars().any(char::is_control) || seen.contains(&subject) {
            return Err(unknown(condition));
        }
        seen.push(subject);
        match field {
            "state" => filter.states = Some(one_state(value)?),
            "done" if value == "true" => filter.states = Some((State::Succeeded as i64, State::Cancelled as i64)),
            "done" if value == "false" => filter.states = Some((State::Scheduled as i64, State::Running as i64)),
            "done" => return Err(format!("done must be true or false, not '{value}'")),
            "skill_id" => value.clone_into(&mut filter.skill_id),
            "session_id" => value.clone_into(&mut filter.session_id),
            _ => return Err(unknown(condition)),
        }
    }
    Ok(filter)
}

fn one_state(name: &str) -> Result<(i64, i64), String> {
    let wire = OperationState::from_str_name(&format!("OPERATION_STATE_{}", name.to_ascii_uppercase()));
    // The contract counts from 1.
    let number = wire.map(|it| i64::from(it as i32) - 1).filter(|it| *it >= 0);
    number.map(|it| (it, it)).ok_or_else(|| {
        format!("'{name}' is not a state: write scheduled, queued, running, succeeded, failed or cancelled")
    })
}

fn unknown(condition: &str) -> String {
    let shown: String = condition.trim().chars().filter(|it| !it.is_control()).take(64).collect();
    format!(
        "the filter '{shown}' is not understood: write conditions such as `state = running AND skill_id = report`; \
         the fields are state, done, skill_id and session_id"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_joined_and_what_is_not_understood_is_named() {
        let filter = parse("skill_id = report AND done=false AND session_id = \"a b\"").unwrap();
        let expected = OperationFilter {
            states: Some((0, 2)),
            skill_id: "report".to_owned(),
            session_id: "a b".to_owned(),
            ..OperationFilter::default()
        };
        assert_eq!(filter, expected);
        for state in State::ALL {
            let name = format!("{state:?}").to_lowercase();
            assert_eq!(parse(&format!("state = {name}")).unwrap().states, Some((state as i64, state as i64)));
        }
        assert_eq!(parse(" "), Ok(OperationFilter::default()));
        for wrong in [
            "skill_id =",
            "skill_id = \0",
            "done = true AND state = failed",
            "state",
            "state = unspecified",
            "state = gone",
            "done = 1",
            "owner = me",
            "a = b OR c = d",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
