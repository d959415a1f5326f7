//! A proxy with the configuration of `docs/proxies.md`, and the gateway behind it.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_tests::certs::Certs;
use openskill_tests::containers::locate;
use openskill_tests::folder::Folder;
use openskill_tests::port::Port;
use openskill_tests::require::{Need, skip};
use openskill_tests::system::{PATIENCE, Setup, System};
use openskill_tests::wait::until;
use openskill_tests::{processes, repository};
use rustix::process::Signal;
use tonic::transport::Channel;

pub(super) const HOST: &str = "skills.example.com";

/// The proxies that the page is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Proxy {
    Nginx,
    Envoy,
}

impl Proxy {
    /// The program; none after the test was skipped.
    fn program_or_skip(self) -> Option<std::path::PathBuf> {
        match self {
            Self::Nginx => {
                let found = locate("nginx");
                if found.is_none() {
                    skip(Need::Nginx, "nginx is not here; install it: apt-get install nginx-light");
                }
                found
            }
            Self::Envoy => {
                let installed = repository().join("target/test-venv/bin/envoy");
                let found = if installed.exists() { Some(installed) } else { locate("envoy") };
                if found.is_none() {
                    skip(Need::Envoy, "Envoy is not here; run `make test-venv`");
                }
                found
            }
        }
    }

    /// Its block of the page, with each text replaced by what it is here.
    fn configuration(self, replacements: &[(&str, String)]) -> String {
        let page = std::fs::read_to_string(repository().join("docs/proxies.md")).unwrap();
        let fence = match self {
            Self::Nginx => "```nginx\n",
            Self::Envoy => "```yaml\nstatic_resources:\n",
        };
        let start = page.find(fence).unwrap() + fence.find('\n').unwrap() + 1;
        let mut block = page[start..].split_once("```").unwrap().0.to_owned();
        for (documented, here) in replacements {
            assert_eq!(block.matches(documented).count(), 1, "docs/proxies.md has '{documented}' once");
            block = block.replace(documented, here);
        }
        block
    }

    /// The command that runs it in the foreground.
    fn command(
        self,
        program: &std::path::Path,
        folder: &Folder,
        port: &Port,
        gateway: SocketAddr,
        certs: &Certs,
    ) -> Command {
        let pem = ("/etc/ssl/skills.example.com.pem", certs.file("gateway.pem"));
        let key = ("/etc/ssl/skills.example.com.key", certs.file("gateway.key"));
        let mut command = Command::new(program);
        match self {
            Self::Nginx => {
                let block = self.configuration(&[
                    ("listen 443 ssl http2", format!("listen {} ssl http2", port.address())),
                    ("server 127.0.0.1:8000", format!("server {gateway}")),
                    pem,
                    key,
                ]);
                let root = folder.path().display();
                let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .iter()
                    .map(|it| format!("{it}_temp_path {root}/{it};\n"))
                    .collect();
                let whole = format!(
                    "daemon off;\nmaster_process off;\npid {root}/pid;\nerror_log stderr warn;\nevents {{}}\n\
                     http {{\naccess_log off;\n{paths}{block}}}\n"
                );
                command.arg("-c").arg(folder.write("nginx.conf", whole)).args(["-e", "stderr"]);
            }
            Self::Envoy => {
                let (host, at) = (gateway.ip(), gateway.port());
                let whole = self.configuration(&[
                    ("address: 0.0.0.0, port_value: 443", format!("address: 127.0.0.1, port_value: {}", port.number())),
                    ("address: gateway, port_value: 8000", format!("address: {host}, port_value: {at}")),
                    // By default, Envoy calls unhealthy gateways if all are unhealthy, which would hide a failing check.
                    (
                        "lb_policy: LEAST_REQUEST",
                        "lb_policy: LEAST_REQUEST\n      common_lb_config: {healthy_panic_threshold: {value: 0}}"
                            .to_owned(),
                    ),
                    pem,
                    key,
                ]);
                command.arg("-c").arg(folder.write("envoy.yaml", whole));
                command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "error"]);
            }
        }
        command
    }
}

/// A proxy and the gateway behind it, until they are dropped.
pub(super) struct Proxied {
    pub(super) system: System,
    pub(super) port: Port,
    certs: Certs,
    proxy: Child,
    _folder: Folder,
}

impl Proxied {
    /// None after the test was skipped.
    pub(super) async fn or_skip(proxy: Proxy) -> Option<Self> {
        let program = proxy.program_or_skip()?;
        let (folder, port, certs) = (Folder::new(), Port::reserve(), Certs::for_hosts(&[HOST]));
        let system = Setup::up().with("OPENSKILL_ALLOWED_HOSTS", HOST).start().await;
        let mut command = proxy.command(&program, &folder, &port, system.address, &certs);
        let proxy = command.stdin(Stdio::null()).spawn().unwrap();
        let proxied = Self { system, certs, port, proxy, _folder: folder };
        let is_ready = || async { proxied.get("/readyz", &[]).await.ok().filter(|(status, _)| *status == 200) };
        until("the proxy passes requests on", PATIENCE, is_ready).await;
        Some(proxied)
    }

    pub(super) async fn grpc(&self) -> SkillServiceClient<Channel> {
        SkillServiceClient::new(self.certs.client().channel_to(self.port.address(), HOST).await.unwrap())
    }

    /// Runs curl, which speaks both versions of HTTP. The status, and what it printed; an error if it got no answer.
    pub(super) async fn curl(&self, arguments: &[&str], path: &str) -> Result<(u16, String), String> {
        let output = self.curl_command(arguments, path).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').ok_or("no output")?;
        if !output.status.success() {
            return Err(format!("{:?}: {body}", output.status));
        }
        Ok((status.parse().unwrap(), body.to_owned()))
    }

    pub(super) fn curl_command(&self, arguments: &[&str], path: &str) -> tokio::process::Command {
        let (port, ca) = (self.port.number(), self.certs.file("ca.pem"));
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["--silent", "--no-buffer", "--max-time", "30", "--noproxy", "*", "--write-out", "\n%{http_code}"])
            .args(["--cacert", &ca, "--resolve", &format!("{HOST}:{port}:127.0.0.1")])
            .args(arguments)
            .arg(format!("https://{HOST}:{port}{path}"))
            .kill_on_drop(true);
        curl
    }

    async fn get(&self, path: &str, headers: &[&str]) -> Result<(u16, String), String> {
        let headers: Vec<_> = headers.iter().flat_map(|it| ["--header", it]).collect();
        self.curl(&headers, path).await
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        processes::send(self.proxy.id() as i32, Signal::TERM);
        let _ = self.proxy.wait();
    }
}
