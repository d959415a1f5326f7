//! A closed loop: each caller has one call under way, all the time.

use std::time::{Duration, Instant};

use openskill_proto::v1::skill_service_client::SkillServiceClient;
use openskill_tests::own_thread::on_own_thread;
use openskill_tests::quantile::{median, quantile};
use openskill_tests::system::{System, code, request};
use tonic::transport::{Channel, Endpoint};

use crate::contenders::Contender;

/// What goes before, to warm up, as a share of what is measured.
const WARM_UP: f64 = 0.3;

pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// One call that has to succeed.
pub(crate) async fn once(system: &System, contender: &Contender) -> Result<(), String> {
    call(&mut system.skills().await, contender).await.map(|_| ())
}

/// `callers` callers for `time`, after [`WARM_UP`] of it.
pub(crate) async fn measure(
    system: &System,
    contender: &Contender,
    callers: usize,
    time: Duration,
) -> Result<Figures, String> {
    let (url, contender) = (system.url(), contender.clone());
    on_own_thread(move || async move { figures(url, &contender, callers, time).await }).await
}

async fn figures(url: String, contender: &Contender, callers: usize, time: Duration) -> Result<Figures, String> {
    let endpoint = Endpoint::from_shared(url).map_err(|error| error.to_string())?;
    let client = SkillServiceClient::new(endpoint.connect().await.map_err(|error| error.to_string())?);
    round(&client, contender, callers, time.mul_f64(WARM_UP)).await?;
    let begun = Instant::now();
    let latencies = round(&client, contender, callers, time).await?;
    let elapsed = begun.elapsed().as_secs_f64();
    let per_second = latencies.len() as f64 / elapsed;
    Ok(Figures { per_second, p50: median(latencies.clone()), p99: quantile(latencies, 0.99) })
}

async fn round(
    client: &SkillServiceClient<Channel>,
    contender: &Contender,
    callers: usize,
    time: Duration,
) -> Result<Vec<Duration>, String> {
    let until = Instant::now() + time;
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (mut client, contender) = (client.clone(), contender.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < until || latencies.is_empty() {
                    latencies.push(call(&mut client, &contender).await?);
                }
                Ok::<_, String>(latencies)
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.map_err(|error| error.to_string())??);
    }
    Ok(all)
}

async fn call(client: &mut SkillServiceClient<Channel>, contender: &Contender) -> Result<Duration, String> {
    let begun = Instant::now();
    let mut asked = request(&contender.skill, contender.input.clone());
    asked.timeout_ms = 60_000;
    let result = client.invoke(asked).await.map_err(|status| status.message().to_owned())?.into_inner();
    if result.success {
        Ok(begun.elapsed())
    } else {
        let message = result.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
        Err(format!("{}: {message}", code(&result)))
    }
}
