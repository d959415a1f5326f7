//! A primary and two standbys, which take over from it.
//!
//! A transaction is confirmed once the primary and one of the standbys have it on disk, so whichever standby has received
//! more has all that was confirmed.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::sleep;

use super::{ENCODED_PASSWORD, PASSWORD, Postgres, Server, USER};
use crate::processes;
use crate::system::PATIENCE;
use crate::wait::until_true;

/// How long a primary hangs: shorter than transactions may take, so that some of them wait for it.
const HANG: Duration = Duration::from_secs(6);

/// How long a primary has no standbys: longer than statements may usually take.
const ISOLATION: Duration = Duration::from_secs(12);

#[derive(Debug)]
pub struct Cluster {
    members: Vec<Server>,
    primary: usize,
    database: String,
}

impl Cluster {
    /// Starts the servers, and makes an empty database.
    pub async fn start(programs: &Postgres) -> Self {
        let primary = Server::start_with(programs, &["wal_keep_size = '1GB'", "max_connections = 60"]).await;
        let database = primary.database();
        // Standbys copy this. It takes effect when they are there.
        primary.query(&database, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'");
        let mut members = vec![primary];
        for _ in 0..2 {
            members.push(Server::prepare(programs));
        }
        let mut cluster = Self { members, primary: 0, database };
        for number in [1, 2] {
            cluster.copy_primary(number).await;
        }
        cluster.query(0, "SELECT pg_reload_conf()");
        cluster.standbys_are_ready().await;
        cluster
    }

    /// The URL that names all servers. Whoever connects looks for the primary.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|it| format!("localhost:{}", it.port.number())).collect();
        format!("postgresql://{USER}:{ENCODED_PASSWORD}@{}/{}", hosts.join(","), self.database)
    }

    /// Ends the primary as after a power failure. A standby takes over, and another one takes its place.
    pub async fn lose_primary(&mut self) {
        self.members[self.primary].stop();
        self.replace_primary().await;
    }

    /// Stops all processes of the primary for a while, and then has a standby take over: whoever watches over the primary
    /// ends it first.
    pub async fn replace_hanging_primary(&mut self) {
        self.signal(self.primary, Signal::STOP);
        sleep(HANG).await;
        let postmaster = self.members[self.primary].child.as_ref().map(|it| it.id() as i32);
        postmaster.into_iter().for_each(|it| processes::send(it, Signal::QUIT));
        self.signal(self.primary, Signal::CONT);
        self.lose_primary().await;
    }

    /// Separates the primary from its standbys for a while, so that it must not confirm anything. Then one of them takes over.
    pub async fn isolate_primary(&mut self) {
        let standbys: Vec<_> = (0..self.members.len()).filter(|it| *it != self.primary).collect();
        standbys.iter().for_each(|it| self.signal(*it, Signal::STOP));
        sleep(ISOLATION).await;
        self.members[self.primary].stop();
        standbys.iter().for_each(|it| self.signal(*it, Signal::CONT));
        self.replace_primary().await;
    }

    /// Stops all processes of the primary for a while.
    pub async fn hang_primary(&self) {
        self.signal(self.primary, Signal::STOP);
        sleep(HANG).await;
        self.signal(self.primary, Signal::CONT);
    }

    fn signal(&self, number: usize, signal: Signal) {
        let postmaster = self.members[number].child.as_ref().map(|it| it.id() as i32);
        for pid in postmaster.into_iter().flat_map(|it| std::iter::once(it).chain(processes::descendants(it))) {
            processes::send(pid, signal);
        }
    }

    async fn replace_primary(&mut self) {
        let lost = self.primary;
        let [one, other] = [(lost + 1) % 3, (lost + 2) % 3];
        let received = |number| self.query(number, "SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn");
        let [first, second] = [one, other].map(|it| received(it).parse::<u64>().unwrap());
        let (next, follower) = if first >= second { (one, other) } else { (other, one) };
        self.query(next, "SELECT pg_promote(true, 30)");
        self.primary = next;
        let connection = self.connection().replace('\'', "''");
        self.query(follower, &format!("ALTER SYSTEM SET primary_conninfo = '{connection}'"));
        self.query(follower, "SELECT pg_reload_conf()");
        self.copy_primary(lost).await;
        self.standbys_are_ready().await;
    }

    /// Makes a server a standby with a copy of the primary's data, whatever it had before.
    async fn copy_primary(&mut self, number: usize) {
        let connection = self.connection();
        let member = &mut self.members[number];
        let mut copy = member.programs.server_command("pg_basebackup", &member.folder);
        copy.args([
            "--pgdata=data",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            "--dbname",
            &connection,
        ]);
        let data = member.folder.path().join("data");
        let copied = tokio::task::spawn_blocking(move || {
            let _ = std::fs::remove_dir_all(data);
            copy.output().unwrap()
        });
        let copied = copied.await.unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        member.start_again().await;
    }

    async fn standbys_are_ready(&self) {
        until_true("two standbys follow the primary", PATIENCE, || {
            self.query(self.primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "2"
        })
        .await;
    }

    /// How standbys reach the primary.
    fn connection(&self) -> String {
        let port = self.members[self.primary].port.number();
        format!("host=127.0.0.1 port={port} user={USER} password='{PASSWORD}'")
    }

    fn query(&self, number: usize, sql: &str) -> String {
        self.members[number].query(&self.database, sql)
    }
}
