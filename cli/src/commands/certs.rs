//! `openskill certs dev`: short-lived certificates for development.
//!
//! The authority's key is never written to a file, so it cannot sign anything later.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openskill_proto::trace::{hex, random_id};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::args::{CertsCommand, DevCerts};
use crate::exit::Failure;
use crate::new_files::{NewFile, write_new};
use crate::settings::names::default_value;
use crate::settings::{RawSettings, SettingProblems};
use crate::terminal::{print_err, print_out, shell_quote};

const DAY: Duration = Duration::from_secs(86_400);

/// The backdating of certificates, because clocks of other machines may be behind.
const BACKDATING: Duration = Duration::from_secs(3600);

pub(super) fn run(command: &CertsCommand, raw: &RawSettings) -> Result<(), Failure> {
    let CertsCommand::Dev(args) = command;
    let listen = listen(raw)?;
    let generated = generate(args, listen)
        .map_err(|error| Failure::Usage(format!("the certificates can't be created: {error}")))?;
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&args.dir);
    created.map_err(Failure::system(format!("writing {}", args.dir.display())))?;
    write_new(&args.dir, &generated)?;
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    print_out(&exports(&dir.to_string_lossy(), &url(listen)));
    let (dir, days) = (args.dir.display(), args.days);
    print_err(&format!("wrote certificates for development to {dir}: they are valid for {days} days\n"));
    Ok(())
}

/// Returns the address of the gateway in the settings. Other settings may name the files that do not exist yet.
fn listen(raw: &RawSettings) -> Result<SocketAddr, Failure> {
    let name = "OPENSKILL_LISTEN";
    let value = raw.value(name);
    let wrong = |_| SettingProblems::from(raw.problem(name, format!("'{value}' is not HOST:PORT with a numeric host")));
    Ok(value.parse().map_err(wrong)?)
}

/// Returns the URL of a gateway that listens on this address.
fn url(listen: SocketAddr) -> String {
    if listen.ip().is_unspecified() || listen.ip() == Ipv4Addr::LOCALHOST {
        return format!("https://localhost:{}", listen.port());
    }
    format!("https://{listen}")
}

/// Generates the files. `listen` is the gateway's address.
fn generate(args: &DevCerts, listen: SocketAddr) -> Result<Vec<NewFile>, rcgen::Error> {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    // The random part makes authorities of different runs distinct: clients find an authority by its name.
    let name = format!("openskill development {}", hex(&random_id::<4>()));
    let mut params = params(&name, &[], &[], args.days)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut gateway =
        [default_value("OPENSKILL_MESH_GATEWAY_NAME"), "localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    gateway.extend(args.hosts.iter().cloned());
    let own = listen.ip();
    if !own.is_unspecified() && !gateway.contains(&own.to_string()) {
        gateway.push(own.to_string());
    }
    let worker = [default_value("OPENSKILL_MESH_WORKER_NAME").to_owned()];
    let mut generated = vec![file("ca.pem", authority.pem())];
    for (common_name, files, hosts, purposes) in [
        ("openskill gateway", ["gateway.pem", "gateway.key"], &gateway[..], &[ServerAuth, ClientAuth][..]),
        ("openskill worker", ["worker.pem", "worker.key"], &worker, &[ServerAuth]),
        ("openskill client", ["client.pem", "client.key"], &[], &[ClientAuth]),
    ] {
        let key = KeyPair::generate()?;
        let certificate = self::params(common_name, hosts, purposes, args.days)?.signed_by(&key, &authority)?;
        generated.extend([file(files[0], certificate.pem()), file(files[1], key.serialize_pem())]);
    }
    Ok(generated)
}

fn file(name: &str, text: String) -> NewFile {
    let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
    NewFile { path: name.to_owned(), text, mode }
}

fn params(
    common_name: &str,
    hosts: &[String],
    purposes: &[ExtendedKeyUsagePurpose],
    days: u16,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages = purposes.to_vec();
    if !purposes.is_empty() {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
    }
    // Certificate times have a resolution of one second.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = UNIX_EPOCH + Duration::from_secs(now);
    params.not_before = (now - BACKDATING).into();
    params.not_after = (now + DAY * u32::from(days)).into();
    Ok(params)
}

/// Formats shell commands that set the variables of the gateway and its clients. Settings that differ between
/// processes are comments.
fn exports(dir: &str, url: &str) -> String {
    let file = |name: &str| shell_quote(&format!("{dir}/{name}"));
    let [ca, cert, key] = ["ca.pem", "gateway.pem", "gateway.key"].map(file);
    let [worker_cert, worker_key] = ["worker.pem", "worker.key"].map(file);
    let [client_cert, client_key] = ["client.pem", "client.key"].map(file);
    format!(
        "# The gateway:\n\
         export OPENSKILL_TLS_CERT={cert}\n\
         export OPENSKILL_TLS_KEY={key}\n\
         # Clients:\n\
         export OPENSKILL_HTTP_BASE_URL={url}\n\
         export OPENSKILL_CA={ca}\n\
         # Clients, if the gateway asks for certificates (OPENSKILL_TLS_CLIENT_CA={ca}):\n\
         # export OPENSKILL_CLIENT_CERT={client_cert} OPENSKILL_CLIENT_KEY={client_key}\n\
         # Between a gateway and workers at TCP addresses, in the environment of the gateway:\n\
         # export OPENSKILL_MESH_CA={ca} OPENSKILL_MESH_CERT={cert} OPENSKILL_MESH_KEY={key}\n\
         # and in that of each worker:\n\
         # export OPENSKILL_MESH_CA={ca} OPENSKILL_MESH_CERT={worker_cert} OPENSKILL_MESH_KEY={worker_key}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_address_that_the_gateway_listens_on() {
        for (listen, expected) in [
            ("127.0.0.1:8123", "https://localhost:8123"),
            ("0.0.0.0:8000", "https://localhost:8000"),
            ("[::]:1", "https://localhost:1"),
            ("10.1.2.3:443", "https://10.1.2.3:443"),
            ("[::1]:8000", "https://[::1]:8000"),
        ] {
            assert_eq!(url(listen.parse().unwrap()), expected);
        }
    }
}
