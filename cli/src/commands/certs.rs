//! `openskill certs dev`: short-lived certificates for development.
//!
//! The authority's key is never written to a file, so it cannot sign anything later.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openskill_proto::trace::{hex, random_id};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::args::{CertsCommand, DevCerts};
use crate::exit::Failure;
use crate::settings::names::default_value;
use crate::terminal::{print_err, print_out};

const DAY: Duration = Duration::from_secs(86_400);

/// The backdating of certificates, because clocks of other machines may be behind.
const BACKDATING: Duration = Duration::from_secs(3600);

type GeneratedFiles = Result<Vec<(&'static str, String)>, rcgen::Error>;

pub(super) fn run(command: &CertsCommand) -> Result<(), Failure> {
    let CertsCommand::Dev(args) = command;
    let generated =
        generate(args).map_err(|error| Failure::Usage(format!("the certificates can't be created: {error}")))?;
    write_all(&args.dir, &generated)?;
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    print_out(&exports(&dir.to_string_lossy()));
    let (dir, days) = (args.dir.display(), args.days);
    print_err(&format!("wrote certificates for development to {dir}: they are valid for {days} days\n"));
    Ok(())
}

/// Generates the files as names and contents.
fn generate(args: &DevCerts) -> GeneratedFiles {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    // The random part makes authorities of different runs distinct: clients find an authority by its name.
    let name = format!("openskill development {}", hex(&random_id::<4>()));
    let mut params = params(&name, &[], &[], args.days)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut gateway = vec![default_value("OPENSKILL_MESH_GATEWAY_NAME").to_owned()];
    gateway.extend(local.iter().chain(&args.hosts).cloned());
    let worker = [default_value("OPENSKILL_MESH_WORKER_NAME").to_owned()];
    let mut generated = vec![("ca.pem", authority.pem())];
    for (common_name, files, hosts, purposes) in [
        ("openskill gateway", ["gateway.pem", "gateway.key"], &gateway[..], &[ServerAuth, ClientAuth][..]),
        ("openskill worker", ["worker.pem", "worker.key"], &worker, &[ServerAuth]),
        ("openskill client", ["client.pem", "client.key"], &[], &[ClientAuth]),
    ] {
        let key = KeyPair::generate()?;
        let certificate = self::params(common_name, hosts, purposes, args.days)?.signed_by(&key, &authority)?;
        generated.extend([(files[0], certificate.pem()), (files[1], key.serialize_pem())]);
    }
    Ok(generated)
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

fn write_all(dir: &Path, files: &[(&str, String)]) -> Result<(), Failure> {
    for (name, _) in files {
        let path = dir.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!("{} already exists; nothing was written", path.display())));
        }
    }
    let failed = |path: &Path| Failure::system(format!("writing {}", path.display()));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed(dir))?;
    for (name, text) in files {
        let path = dir.join(name);
        let is_key = Path::new(name).extension().is_some_and(|it| it == "key");
        let mode = if is_key { 0o600 } else { 0o644 };
        // `create_new`: a file created since the check above is not overwritten.
        let mut file = File::options().write(true).create_new(true).mode(mode).open(&path).map_err(failed(&path))?;
        file.write_all(text.as_bytes()).map_err(failed(&path))?;
    }
    Ok(())
}

/// Formats shell commands that set the variables of the gateway and its clients. Settings that differ between
/// processes are comments.
fn exports(dir: &str) -> String {
    let file = |name: &str| format!("'{}'", format!("{dir}/{name}").replace('\'', r"'\''"));
    let [ca, cert, key] = ["ca.pem", "gateway.pem", "gateway.key"].map(file);
    let [worker_cert, worker_key] = ["worker.pem", "worker.key"].map(file);
    let [client_cert, client_key] = ["client.pem", "client.key"].map(file);
    format!(
        "# The gateway:\n\
         export OPENSKILL_TLS_CERT={cert}\n\
         export OPENSKILL_TLS_KEY={key}\n\
         # Clients:\n\
         export OPENSKILL_HTTP_BASE_URL=https://localhost:8000\n\
         export OPENSKILL_CA={ca}\n\
         # Clients, if the gateway asks for certificates (OPENSKILL_TLS_CLIENT_CA={ca}):\n\
         # export OPENSKILL_CLIENT_CERT={client_cert} OPENSKILL_CLIENT_KEY={client_key}\n\
         # Between a gateway and workers at TCP addresses, in the environment of the gateway:\n\
         # export OPENSKILL_MESH_CA={ca} OPENSKILL_MESH_CERT={cert} OPENSKILL_MESH_KEY={key}\n\
         # and in that of each worker:\n\
         # export OPENSKILL_MESH_CA={ca} OPENSKILL_MESH_CERT={worker_cert} OPENSKILL_MESH_KEY={worker_key}\n"
    )
}
