//! What a URL says about a database.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::tls::Tls;
use crate::engine::StoreError;

/// What holds unless the URL says something else. A connection whose server vanishes breaks after about 20 seconds.
const DEFAULTS: &str = "application_name=openskill&connect_timeout=3&keepalives_idle=10&keepalives_interval=3\
                        &keepalives_retries=3&tcp_user_timeout=15";

/// How to connect to a database.
#[derive(Debug)]
pub(super) struct Settings {
    /// One for each server that the URL names. Their `Debug` hides the password.
    servers: Vec<Config>,
    /// The position of the one that served last.
    current: AtomicUsize,
    pub(super) tls: Tls,
    /// Names the database in messages, without the user.
    pub(super) name: String,
    /// Whether the server may lose what it has confirmed.
    pub(super) allows_loss: bool,
}

impl Settings {
    /// Reads a URL as libpq does, with three more words: `openskill_unsafe=allow`, `sslrootcert` with the path of the
    /// trusted authorities, and `sslmode=verify-full`, which is the same as `require` here.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        check_shape(url)?;
        let mut allows_loss = false;
        let mut authorities = None;
        let mut parameters = vec![DEFAULTS];
        for parameter in query.split('&').filter(|it| !it.is_empty()) {
            match parameter.split_once('=') {
                Some(("openskill_unsafe", "allow")) => allows_loss = true,
                Some(("openskill_unsafe", _)) => return Err(invalid("openskill_unsafe can only be 'allow'")),
                Some(("sslrootcert", path)) => {
                    let path = percent_decode_str(path).decode_utf8().map_err(|_| invalid("sslrootcert is no path"))?;
                    authorities = Some(PathBuf::from(&*path));
                }
                Some(("sslmode", "verify-full")) => parameters.push("sslmode=require"),
                _ => parameters.push(parameter),
            }
        }
        let parameters = parameters.join("&");
        let config = parse(base, &parameters, authorities.is_some())?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(invalid("it names no host"));
        }
        let tls = Tls::load(config.get_ssl_mode(), authorities.clone())?;
        let servers = hosts(base).into_iter().map(|base| parse(&base, &parameters, authorities.is_some()));
        let servers = servers.collect::<Result<_, _>>()?;
        Ok(Self { name: name(&config), servers, current: AtomicUsize::new(0), tls, allows_loss })
    }

    /// The servers, beginning with the one that served last.
    pub(super) fn servers(&self) -> impl Iterator<Item = (usize, &Config)> {
        let all = self.servers.iter().enumerate();
        let current = self.current.load(Ordering::Relaxed);
        all.clone().skip(current).chain(all.take(current))
    }

    /// Has later connections begin with this server.
    pub(super) fn prefer(&self, number: usize) {
        self.current.store(number, Ordering::Relaxed);
    }
}

fn parse(base: &str, parameters: &str, has_authorities: bool) -> Result<Config, StoreError> {
    let parsed = format!("{base}?{parameters}").parse();
    let mut config: Config = parsed.map_err(|error: tokio_postgres::Error| invalid(&value_error(&error)))?;
    if has_authorities && config.get_ssl_mode() == SslMode::Prefer {
        config.ssl_mode(SslMode::Require);
    }
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok(config)
}

/// Splits a URL that names several servers into one for each of them: one that hangs must not keep others from being tried.
fn hosts(base: &str) -> Vec<String> {
    let start = base.find('@').map_or_else(|| base.find("//").map_or(0, |it| it + 2), |it| it + 1);
    let (before, rest) = base.split_at(start);
    let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    hosts.split(',').map(|host| format!("{before}{host}{path}")).collect()
}

/// Refuses what is no URL, and characters that would make a part of the password look like something else.
fn check_shape(url: &str) -> Result<(), StoreError> {
    let rest = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://"));
    let Some(rest) = rest else { return Err(invalid("it does not begin with postgresql://")) };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.matches('@').count() > 1 || path.contains('@') {
        return Err(invalid("write '@' as %40, '/' as %2F and '?' as %3F in names and passwords"));
    }
    Ok(())
}

fn invalid(reason: &str) -> StoreError {
    StoreError::Unusable(format!(
        "its URL is invalid: {reason}. It looks like postgresql://user:password@host:5432/database?sslmode=require"
    ))
}

/// Says which parameter has a wrong value. Other errors may quote the URL.
fn value_error(error: &tokio_postgres::Error) -> String {
    let reason = error.source().map(ToString::to_string).unwrap_or_default();
    if reason.starts_with("invalid value for option") { reason } else { "it has an unknown parameter".to_owned() }
}

fn name(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |number: usize| ports.get(number).or(ports.first()).copied().unwrap_or(5432);
    let host = |(number, host): (usize, &Host)| match host {
        Host::Tcp(host) => format!("{host}:{}", port(number)),
        Host::Unix(folder) => format!("{}:{}", folder.display(), port(number)),
    };
    let hosts: Vec<_> = config.get_hosts().iter().enumerate().map(host).collect();
    let addresses = config.get_hostaddrs().iter().enumerate().map(|(number, it)| format!("{it}:{}", port(number)));
    let hosts = if hosts.is_empty() { addresses.collect() } else { hosts };
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("PostgreSQL {}/{database}", hosts.join(","))
}
