//! `openskill doctor`: reports what this machine supports, what skills require, and whether the certificate of the
//! configured gateway is valid, and when it expires. Also says what the store of operations survives.

use std::time::{SystemTime, UNIX_EPOCH};

use http::Uri;
use openskill_net::tls::certificate_info::CertificateInfo;
use openskill_net::tls::inspect::{Inspection, inspect};
use openskill_store::durability::Durability;
use openskill_worker::doctor::{Examination, Finding, Status, examine};
use serde_json::{Value, json};

use crate::args::DoctorArgs;
use crate::exit::Failure;
use crate::runtime::block_on;
use crate::serve;
use crate::settings::{RawSettings, Settings};
use crate::terminal::{print_out, print_value};

pub(super) fn run(args: &DoctorArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    let config = serve::worker::config(settings, raw)?;
    block_on(async {
        let mut found = examine(config).await.map_err(Failure::system("setting up the sandbox"))?;
        found.machine.extend(certificate(settings).await);
        found.machine.extend(store(settings).await);
        if args.json {
            print_value(&to_json(&found));
        } else {
            show(&found);
        }
        if found.is_good() { Ok(()) } else { Err(Failure::Reported) }
    })
}

fn show(found: &Examination) {
    let line = |it: &Finding| {
        print_out(&format!("{:<5} {:<13} {}\n", it.status.word(), it.topic, it.text.replace('\n', " ")));
    };
    found.machine.iter().for_each(line);
    let (good, rest): (Vec<_>, Vec<_>) = found.skills.iter().partition(|it| it.status == Status::Ok);
    let (available, unavailable, good) = (found.available, found.unavailable, good.len());
    print_out(&format!(
        "{:<5} {:<13} {available} available, {unavailable} unavailable; {good} meet all requirements of their manifests\n",
        "ok", "skills"
    ));
    rest.into_iter().for_each(line);
}

fn to_json(found: &Examination) -> Value {
    let list = |findings: &[Finding]| {
        let one = |it: &Finding| json!({ "topic": it.topic, "status": it.status.word(), "text": it.text });
        findings.iter().map(one).collect::<Vec<_>>()
    };
    json!({ "good": found.is_good(), "machine": list(&found.machine), "skills": list(&found.skills),
        "available": found.available, "unavailable": found.unavailable })
}

/// Says what an acknowledged operation survives. Returns `None` if no store is set.
async fn store(settings: &Settings) -> Option<Finding> {
    let (status, text) = match settings.gateway.operations.store.as_ref()?.durability().await {
        Ok(Durability { text, is_durable }) => (if is_durable { Status::Ok } else { Status::Part }, text),
        Err(error) => (Status::No, format!("OPENSKILL_STORE: {error}")),
    };
    Some(Finding { topic: "store".to_owned(), status, text })
}

/// The remaining lifetime that triggers a warning, in seconds.
const SOON_S: i64 = 7 * 86_400;

/// Checks the certificate. Returns `None` if the settings name no gateway that uses TLS.
async fn certificate(settings: &Settings) -> Option<Finding> {
    let uri = settings.base_url.parse::<Uri>().ok().filter(|it| it.scheme_str() == Some("https"))?;
    let host = uri.host()?;
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let authorities = match settings.tls.client.authorities.as_ref().map(std::fs::read).transpose() {
        Ok(authorities) => authorities,
        Err(error) => return Some(finding(Status::No, format!("OPENSKILL_CA cannot be read: {error}"))),
    };
    let inspected = inspect(host, uri.port_u16().unwrap_or(443), authorities.as_deref()).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    Some(match inspected {
        Ok(inspection) => judge_certificate(&settings.base_url, &inspection, now),
        Err(reason) => finding(Status::No, format!("OPENSKILL_CA: {reason}")),
    })
}

fn judge_certificate(url: &str, Inspection { certificate, failure }: &Inspection, now: i64) -> Finding {
    let said =
        certificate.as_ref().map(|certificate| format!("certificate {certificate} ({})", remaining(certificate, now)));
    match (said, failure) {
        (Some(said), None) => {
            let is_soon = certificate.as_ref().is_some_and(|certificate| certificate.ends.0 - now < SOON_S);
            finding(if is_soon { Status::Part } else { Status::Ok }, format!("{url}: {said}"))
        }
        (Some(said), Some(failure)) => finding(Status::No, format!("{url}: {said}; the connection failed: {failure}")),
        (None, Some(failure)) => finding(Status::No, format!("{url}: no certificate was received: {failure}")),
        (None, None) => finding(Status::Part, format!("{url}: the certificate cannot be described")),
    }
}

fn remaining(certificate: &CertificateInfo, now: i64) -> String {
    let (days, is_past) = ((certificate.ends.0 - now).abs() / 86_400, certificate.ends.0 <= now);
    match (is_past, days) {
        (true, 0) => "it has expired".to_owned(),
        (true, days) => format!("it expired {days} days ago"),
        (false, 0) => "it expires within a day".to_owned(),
        (false, days) => format!("it expires in {days} days"),
    }
}

fn finding(status: Status, text: String) -> Finding {
    Finding { topic: "gateway".to_owned(), status, text }
}

#[cfg(test)]
mod tests {
    use openskill_net::tls::expiry::Time;

    use super::*;

    #[test]
    fn a_certificate_that_ends_soon_or_is_not_trusted_is_no_good_one() {
        let of = |ends: i64, failure: Option<&str>| {
            let certificate = CertificateInfo {
                names: vec!["a".to_owned()],
                issuer: "ours".to_owned(),
                is_self_issued: false,
                begins: Time(0),
                ends: Time(ends),
            };
            let found = judge_certificate(
                "https://a",
                &Inspection { certificate: Some(certificate), failure: failure.map(str::to_owned) },
                1_000_000,
            );
            (found.status, found.text)
        };
        assert_eq!(of(1_000_000 + 30 * 86_400, None).0, Status::Ok);
        assert_eq!(of(1_000_000 + 86_400, None).0, Status::Part);
        let (status, text) = of(1_000_000 - 3 * 86_400, Some("invalid peer certificate: Expired"));
        assert!(status == Status::No && text.contains("expired 3 days ago"), "{text}");
    }
}
