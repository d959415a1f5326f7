//! `openskill circuits`: lists, watches and resets circuit breakers.

use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::{Circuit, CircuitState, ListCircuitsRequest, ListCircuitsResponse, ResetCircuitsRequest};
use serde_json::{Value, json};

use super::client;
use super::poll::{Matching, watch};
use crate::args::CircuitsArgs;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::settings::Settings;
use crate::terminal::{pluralize, print_err, print_out};

impl ListItem for Circuit {
    const KIND: &'static str = "circuit";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("SKILL", |it| it.skill_id.clone()),
        Column::text("SESSION", |it| or_dash(&it.session_id)),
        Column::new("STATE", state),
        Column::new("FAILURES", |it| it.failures.to_string()),
        Column::new("RETRY", retry),
    ];

    fn value(&self) -> Value {
        json!({
            "skill_id": self.skill_id,
            "session_id": self.session_id,
            "state": state(self),
            "failures": self.failures,
            "retry_after_ms": self.retry_after_ms,
        })
    }
}

pub(super) async fn run(args: &CircuitsArgs, settings: &Settings) -> Result<(), Failure> {
    let mut admin = client::admin(settings).await?;
    if args.reset {
        let (skill_id, session_id) = filter(args);
        let request = ResetCircuitsRequest { skill_id, session_id };
        let answer = admin.reset_circuits(request).await.map_err(client::into_failure(settings))?;
        print_out(&format!("closed {}\n", pluralize(answer.into_inner().reset, "circuit breaker")));
        return Ok(());
    }
    let format = args.list.output.format();
    if args.list.watch {
        let matching = Matching::<Circuit> {
            key: |it| format!("{}\n{}", it.skill_id, it.session_id),
            // Ignores the time until a retry, which changes with every poll.
            differs: |now, before| (now.state, now.failures) != (before.state, before.failures),
            // A circuit breaker that is no longer listed has closed.
            left: |it| Circuit { state: CircuitState::Closed.into(), failures: 0, retry_after_ms: 0, ..it },
        };
        match watch(format, &matching, async || Ok(fetch(&mut admin, args, settings).await?.circuits)).await? {}
    }
    let answer = fetch(&mut admin, args, settings).await?;
    print_list(&answer.circuits, format);
    if answer.left_out > 0 {
        print_err(&format!("{} more not shown: filter by skill or --session\n", answer.left_out));
    }
    Ok(())
}

async fn fetch(
    admin: &mut AdminServiceClient<Channel>,
    args: &CircuitsArgs,
    settings: &Settings,
) -> Result<ListCircuitsResponse, Failure> {
    let (skill_id, session_id) = filter(args);
    let request = ListCircuitsRequest { include_closed: args.all, skill_id, session_id, limit: 0 };
    Ok(admin.list_circuits(request).await.map_err(client::into_failure(settings))?.into_inner())
}

fn filter(args: &CircuitsArgs) -> (String, String) {
    (args.skill_id.clone().unwrap_or_default(), args.session.clone().unwrap_or_default())
}

pub(super) fn state(circuit: &Circuit) -> String {
    circuit.state().as_str_name().trim_start_matches("CIRCUIT_STATE_").to_ascii_lowercase()
}

pub(super) fn retry(circuit: &Circuit) -> String {
    match circuit.retry_after_ms {
        0 => "-".to_owned(),
        wait => format!("in {} s", wait.div_ceil(1000)),
    }
}
