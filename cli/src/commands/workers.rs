//! `openskill workers`.

use std::process::ExitCode;

use openskill_proto::v1::{ListWorkersRequest, WorkerInfo};
use serde_json::{Value, json};

use super::client;
use crate::args::Workers;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::table::table;
use crate::terminal::{say, say_value};

pub(super) async fn run(args: &Workers, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut admin = client::admin(settings).await?;
    let answer = admin.list_workers(ListWorkersRequest {}).await.map_err(client::refused(settings))?;
    let workers = answer.into_inner().workers;
    if args.json {
        say_value(&workers.iter().map(to_json).collect());
    } else {
        let head = ["ID", "STATUS", "CALLS", "CAPACITY", "LIMIT", "SKILLS", "ENDPOINT", "REASON"];
        say(&table(head, workers.iter().map(row)));
    }
    Ok(ExitCode::SUCCESS)
}

fn status(worker: &WorkerInfo) -> String {
    worker.status().as_str_name().trim_start_matches("WORKER_STATUS_").to_ascii_lowercase()
}

fn row(worker: &WorkerInfo) -> [String; 8] {
    let id = if worker.worker_id.is_empty() { "-".to_owned() } else { worker.worker_id.clone() };
    let counts = [worker.in_flight, worker.capacity, worker.limit, worker.skills].map(|it| it.to_string());
    let [running, capacity, limit, skills] = counts;
    [id, status(worker), running, capacity, limit, skills, worker.endpoint.clone(), worker.reason.clone()]
}

fn to_json(worker: &WorkerInfo) -> Value {
    json!({
        "worker_id": worker.worker_id,
        "endpoint": worker.endpoint,
        "status": status(worker),
        "reason": worker.reason,
        "in_flight": worker.in_flight,
        "capacity": worker.capacity,
        "limit": worker.limit,
        "skills": worker.skills,
        "version": worker.version,
    })
}
