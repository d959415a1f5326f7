//! `InvokeMany`: streams over one connection, each with as many callers as the gateway runs calls of one stream.

use std::net::SocketAddr;

use openskill_proto::limits::MAX_CALLS_PER_STREAM;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InvokeEvent, InvokeRequest, SkillResult};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::{Ask, Failure, Numbers, grpc};

/// A caller: a place on a stream, and where its results come.
pub(crate) struct Many {
    number: usize,
    ask: Ask,
    numbers: Numbers,
    requests: mpsc::Sender<InvokeRequest>,
    results: mpsc::Receiver<SkillResult>,
}

/// Opens the streams for so many callers.
pub(crate) async fn open(
    address: SocketAddr,
    ask: &Ask,
    numbers: &Numbers,
    callers: usize,
) -> Result<Vec<Many>, String> {
    let client = grpc::connect(address).await?;
    let mut all = Vec::new();
    while all.len() < callers {
        let places = MAX_CALLS_PER_STREAM.min(callers - all.len());
        let (requests, outgoing) = mpsc::channel(places);
        let answers = client.clone().invoke_many(ReceiverStream::new(outgoing)).await;
        let answers = answers.map_err(|status| status.message().to_owned())?.into_inner();
        let mut senders = Vec::new();
        for number in 0..places {
            let (sender, results) = mpsc::channel(1);
            senders.push(sender);
            let (ask, numbers) = (ask.clone(), numbers.clone());
            all.push(Many { number, ask, numbers, requests: requests.clone(), results });
        }
        // Ends with the stream, which ends with its callers.
        tokio::task::spawn_local(hand_out(answers, senders));
    }
    Ok(all)
}

/// Gives each result to the caller whose number is the call's id.
async fn hand_out(mut answers: Streaming<InvokeEvent>, callers: Vec<mpsc::Sender<SkillResult>>) {
    while let Ok(Some(event)) = answers.message().await {
        if let Some(Event::Result(result)) = event.event
            && let Some(caller) = event.call_id.parse().ok().and_then(|number: usize| callers.get(number))
        {
            let _ = caller.send(result).await;
        }
    }
}

impl Many {
    pub(crate) async fn call(&mut self) -> Result<(), Failure> {
        let mut request = (self.ask)(self.numbers.next());
        request.call_id = self.number.to_string();
        self.requests.send(request).await.map_err(|_| ended())?;
        let result = self.results.recv().await.ok_or_else(ended)?;
        grpc::succeeded(&result)
    }
}

fn ended() -> Failure {
    Failure::Broken("the stream ended".to_owned())
}
