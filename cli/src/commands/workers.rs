//! `openskill workers`: lists or watches workers.

use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::{ListWorkersRequest, RefusedFile, WorkerInfo};
use serde_json::{Value, json};

use super::client;
use super::poll::{Matching, watch};
use crate::args::WatchedList;
use crate::channel::Channel;
use crate::exit::Failure;
use crate::listing::{Column, ListItem, or_dash, print_list};
use crate::settings::Settings;

impl ListItem for WorkerInfo {
    const KIND: &'static str = "worker";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("ID", |it| or_dash(&it.worker_id)),
        Column::new("STATUS", status),
        Column::new("CALLS", |it| it.in_flight.to_string()),
        Column::new("CAPACITY", |it| it.capacity.to_string()),
        Column::optional("LIMIT", |it| it.limit.to_string()),
        Column::new("SKILLS", |it| it.skills.to_string()),
        Column::wide("VERSION", |it| or_dash(&it.version)),
        Column::optional("ENDPOINT", |it| it.endpoint.clone()),
        Column::text("REASON", |it| it.reason.clone()),
    ];

    fn value(&self) -> Value {
        let refused_file = |it: &RefusedFile| json!({"file": it.file, "line": it.line, "reason": it.reason});
        let refused_files: Vec<_> = self.refused_files.iter().map(refused_file).collect();
        json!({
            "worker_id": self.worker_id,
            "endpoint": self.endpoint,
            "status": status(self),
            "reason": self.reason,
            "in_flight": self.in_flight,
            "capacity": self.capacity,
            "limit": self.limit,
            "skills": self.skills,
            "version": self.version,
            "refused_files": refused_files,
        })
    }
}

pub(super) async fn run(args: &WatchedList, settings: &Settings) -> Result<(), Failure> {
    let mut admin = client::admin(settings).await?;
    let format = args.output.format();
    if args.watch {
        let matching = Matching::<WorkerInfo> {
            key: |it| it.endpoint.clone(),
            differs: |now, before| now != before,
            left: |it| it,
        };
        match watch(format, &matching, async || list_all(&mut admin, settings).await).await? {}
    }
    print_list(&list_all(&mut admin, settings).await?, format);
    Ok(())
}

/// Fetches all workers of the gateway.
pub(super) async fn list_all(
    admin: &mut AdminServiceClient<Channel>,
    settings: &Settings,
) -> Result<Vec<WorkerInfo>, Failure> {
    let answer = admin.list_workers(ListWorkersRequest {}).await.map_err(client::into_failure(settings))?;
    Ok(answer.into_inner().workers)
}

pub(super) fn status(worker: &WorkerInfo) -> String {
    worker.status().as_str_name().trim_start_matches("WORKER_STATUS_").to_ascii_lowercase()
}

/// Formats the files that a worker refuses, one per line.
pub(super) fn refused_files(worker: &WorkerInfo) -> impl Iterator<Item = String> {
    worker.refused_files.iter().map(|it| format!("{}:{}: {}", it.file, it.line, it.reason))
}
