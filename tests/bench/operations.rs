//! Stored calls beside what they are made of: `Submit` beside pgbench, which inserts the same row into the same PostgreSQL
//! server; an operation beside `Invoke`; `Invoke` at a gateway with a store beside one without; and lists of many operations.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use openskill_proto::longrunning::operations_client::OperationsClient;
use openskill_proto::longrunning::{ListOperationsRequest, WaitOperationRequest};
use openskill_proto::v1::operation_service_client::OperationServiceClient;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_proto::v1::{InvokeRequest, SubmitRequest};
use openskill_tests::fixtures;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::postgres::{Postgres, Server};
use openskill_tests::quantile::{median, quantile};
use openskill_tests::system::{Process, Setup, System, request};
use serde_json::json;
use tokio::task::JoinSet;
use tonic::transport::Channel;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct OperationsSettings {
    /// Callers at once
    #[arg(long, default_value_t = 16)]
    callers: usize,
    /// Rounds, each with all measurements
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Operations in the store while lists are measured
    #[arg(long, default_value_t = 1_000_000)]
    stored: usize,
}

/// Two gateways of one worker. Only one has a store.
struct Stage {
    server: Server,
    database: String,
    with_store: System,
    without: System,
    _worker: Process,
    _folder: Folder,
}

/// What callers repeat.
#[derive(Clone, Copy)]
enum Request {
    Invoke,
    /// Store a call that runs tomorrow.
    Submit,
    /// Store a call, and wait for its result.
    SubmitAndWait,
}

/// How the calls of a measurement went.
struct Calls {
    per_second: f64,
    /// In seconds.
    p50: f64,
}

/// Runs the rounds and prints their ratios.
pub(crate) fn run(settings: &OperationsSettings) -> Result<(), String> {
    let programs = Postgres::oldest_or_skip().ok_or("PostgreSQL 15 is needed: apt-get install postgresql-15")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|it| it.to_string())?;
    runtime.block_on(async {
        let stage = Stage::start(&programs).await;
        compare(&stage, &programs, settings).await;
        stage.store_many(settings.stored);
        println!("\nA page of 50 of {} operations, median of 20:", settings.stored);
        for filter in ["", "done = true", "skill_id = in_echo", "skill_id = none"] {
            println!("- `{filter}`: {:.1} ms", stage.list(filter).await * 1e3);
        }
    });
    Ok(())
}

async fn compare(stage: &Stage, programs: &Postgres, settings: &OperationsSettings) {
    let time = Duration::from_secs(settings.seconds);
    Client::connect(&stage.with_store).await.send(Request::Submit).await;
    stage.copy_row();
    println!(
        "| round | Submit/s | pgbench/s | ratio | Submit to result, p50 | Invoke, p50 | ratio | Invoke/s with a store | without | ratio |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for round in 1..=settings.rounds {
        let submitted = measure(&stage.with_store, settings.callers, time, Request::Submit).await;
        let inserted = stage.insert(programs, settings);
        let operation = measure(&stage.with_store, 1, time, Request::SubmitAndWait).await;
        let call = measure(&stage.with_store, 1, time, Request::Invoke).await;
        let with_store = measure(&stage.with_store, settings.callers, time, Request::Invoke).await;
        let without = measure(&stage.without, settings.callers, time, Request::Invoke).await;
        println!(
            "| {round} | {:.0} | {inserted:.0} | {:.2} | {:.2} ms | {:.2} ms | {:.1} | {:.0} | {:.0} | {:.3} |",
            submitted.per_second,
            submitted.per_second / inserted,
            operation.p50 * 1e3,
            call.p50 * 1e3,
            operation.p50 / call.p50,
            with_store.per_second,
            without.per_second,
            with_store.per_second / without.per_second
        );
    }
}

impl Stage {
    async fn start(programs: &Postgres) -> Self {
        let (server, folder) = (Server::start(programs).await, Folder::new());
        let (database, socket) = (server.database(), format!("unix:{}", folder.path().join("worker.sock").display()));
        let worker = Setup::command(&["worker", "--listen", &socket]).flag("--skills-dir", fixtures().display());
        let worker = worker.at_its_own_pace().data(folder.path()).spawn();
        worker.log.line(&["worker ready"]).await;
        // Operations of tomorrow pile up.
        let keep = |setup: Setup| setup.with("OPENSKILL_OPERATIONS_MAX", 10_000_000);
        let with_store = gateway(&socket, |it| keep(it).with("OPENSKILL_STORE", server.url(&database))).await;
        let without = gateway(&socket, |it| it).await;
        Self { server, database, with_store, without, _worker: worker, _folder: folder }
    }

    /// The columns of an operation but its id and its age.
    fn columns(&self) -> String {
        let sql = "SELECT string_agg(column_name, ', ') FROM information_schema.columns \
                   WHERE table_name = 'operations' AND column_name NOT IN ('id', 'created_ms')";
        self.server.query(&self.database, sql)
    }

    /// Keeps a row that the gateway stored, and makes an empty table like that of operations.
    fn copy_row(&self) {
        self.server.query(&self.database, "CREATE TABLE sample AS SELECT * FROM operations LIMIT 1");
        self.server.query(&self.database, "CREATE TABLE same (LIKE operations INCLUDING ALL)");
    }

    /// Has pgbench insert copies of the row. Returns how many it inserts a second.
    fn insert(&self, programs: &Postgres, settings: &OperationsSettings) -> f64 {
        let columns = self.columns();
        let insert = format!(
            "INSERT INTO same (id, created_ms, {columns}) SELECT gen_random_uuid()::text, created_ms, {columns} FROM sample;\n"
        );
        let mut pgbench = programs.command("pgbench");
        pgbench.args(["--no-vacuum", "--jobs", "2", "--client", &settings.callers.to_string()]);
        pgbench.args(["--time", &settings.seconds.to_string(), "--file"]).arg(self.server.write("insert.sql", insert));
        let output = pgbench.arg(self.server.url(&self.database)).stderr(Stdio::inherit()).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        tps.unwrap_or_else(|| panic!("pgbench says how many: {text}"))
    }

    /// Stores operations that have ended.
    fn store_many(&self, count: usize) {
        let columns = self.columns();
        let ended = "UPDATE sample SET state = 3, ended_ms = created_ms, remove_ms = created_ms + 604800000";
        let copies = format!(
            "INSERT INTO operations (id, created_ms, {columns}) SELECT md5(n::text), created_ms - n, {columns} \
             FROM sample, generate_series(1, {count}) n"
        );
        for sql in [ended, &copies, "ANALYZE operations"] {
            self.server.query(&self.database, sql);
        }
    }

    /// Turns the pages of a list. Returns the median time of one in seconds.
    async fn list(&self, filter: &str) -> f64 {
        let mut client = OperationsClient::new(self.with_store.channel().await);
        let (mut took, mut page_token) = (Vec::new(), String::new());
        for _ in 0..20 {
            let filter = filter.to_owned();
            let request =
                ListOperationsRequest { filter, page_size: 50, page_token, ..ListOperationsRequest::default() };
            let begun = Instant::now();
            let page = client.list_operations(request).await.expect("it is listed").into_inner();
            took.push(begun.elapsed().as_secs_f64());
            page_token = page.next_page_token;
        }
        median(took)
    }
}

async fn gateway(worker: &str, configure: impl FnOnce(Setup) -> Setup) -> System {
    // Held until it listens.
    let port = Port::reserve();
    let setup = Setup::command(&["gateway", "--listen", &port.address().to_string(), "--workers", worker]);
    let process = configure(setup.at_its_own_pace()).spawn();
    process.log.line(&["gateway ready"]).await;
    let gateway = System { address: port.address(), process };
    gateway.has_skill("in_echo").await;
    gateway
}

/// One connection.
#[derive(Clone)]
struct Client {
    skills: SkillServiceClient<Channel>,
    operations: OperationServiceClient<Channel>,
    standard: OperationsClient<Channel>,
}

impl Client {
    async fn connect(gateway: &System) -> Self {
        let channel = gateway.channel().await;
        Self {
            skills: SkillServiceClient::new(channel.clone()),
            operations: OperationServiceClient::new(channel.clone()),
            standard: OperationsClient::new(channel),
        }
    }

    async fn send(&mut self, sent: Request) {
        match sent {
            Request::Invoke => assert!(self.skills.invoke(call()).await.expect("it is answered").into_inner().success),
            Request::Submit => drop(self.submit(Some((SystemTime::now() + DAY).into())).await),
            Request::SubmitAndWait => {
                let name = self.submit(None).await;
                let wait = WaitOperationRequest { name, timeout: None };
                let ended = self.standard.wait_operation(wait).await.expect("it is answered").into_inner();
                assert!(ended.done);
            }
        }
    }

    async fn submit(&mut self, start_at: Option<prost_types::Timestamp>) -> String {
        let request = SubmitRequest { call: Some(call()), start_at, ..SubmitRequest::default() };
        self.operations.submit(request).await.expect("it is stored").into_inner().name
    }
}

fn call() -> InvokeRequest {
    request("in_echo", json!({ "text": "hello" }))
}

/// Repeats a request from so many callers of one connection.
async fn measure(gateway: &System, callers: usize, time: Duration, sent: Request) -> Calls {
    let client = Client::connect(gateway).await;
    let begun = Instant::now();
    let until = begun + time;
    let mut calling = JoinSet::new();
    for _ in 0..callers {
        let mut client = client.clone();
        calling.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let begun = Instant::now();
                client.send(sent).await;
                took.push(begun.elapsed().as_secs_f64());
            }
            took
        });
    }
    let all: Vec<f64> = calling.join_all().await.into_iter().flatten().collect();
    Calls { per_second: all.len() as f64 / begun.elapsed().as_secs_f64(), p50: quantile(all, 0.5) }
}
