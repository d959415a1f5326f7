//! `openskill circuits`.

use std::process::ExitCode;

use openskill_proto::v1::{Circuit, ListCircuitsRequest, ResetCircuitsRequest};
use serde_json::{Value, json};

use super::client;
use crate::args::Circuits;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::table::table;
use crate::terminal::{complain, counted, say, say_value};

pub(super) async fn run(args: &Circuits, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut admin = client::admin(settings).await?;
    let (skill_id, session_id) = (args.skill_id.clone().unwrap_or_default(), args.session.clone().unwrap_or_default());
    if args.reset {
        let request = ResetCircuitsRequest { skill_id, session_id };
        let answer = admin.reset_circuits(request).await.map_err(client::refused(settings))?;
        say(&format!("closed {}\n", counted(answer.into_inner().reset, "circuit breaker")));
        return Ok(ExitCode::SUCCESS);
    }
    let request = ListCircuitsRequest { include_closed: args.all, skill_id, session_id, limit: 0 };
    let answer = admin.list_circuits(request).await.map_err(client::refused(settings))?.into_inner();
    if args.json {
        say_value(&answer.circuits.iter().map(to_json).collect());
    } else {
        say(&table(["SKILL", "SESSION", "STATE", "FAILURES", "RETRY"], answer.circuits.iter().map(row)));
    }
    if answer.left_out > 0 {
        complain(&format!("{} more not shown: filter by skill or --session\n", answer.left_out));
    }
    Ok(ExitCode::SUCCESS)
}

fn state(circuit: &Circuit) -> String {
    circuit.state().as_str_name().trim_start_matches("CIRCUIT_STATE_").to_ascii_lowercase()
}

fn row(circuit: &Circuit) -> [String; 5] {
    let session = if circuit.session_id.is_empty() { "-".to_owned() } else { circuit.session_id.clone() };
    let retry = match circuit.retry_after_ms {
        0 => "-".to_owned(),
        wait => format!("in {} s", wait.div_ceil(1000)),
    };
    [circuit.skill_id.clone(), session, state(circuit), circuit.failures.to_string(), retry]
}

fn to_json(circuit: &Circuit) -> Value {
    json!({
        "skill_id": circuit.skill_id,
        "session_id": circuit.session_id,
        "state": state(circuit),
        "failures": circuit.failures,
        "retry_after_ms": circuit.retry_after_ms,
    })
}
