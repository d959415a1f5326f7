//! gRPC messages that are compressed with gzip, frame by frame.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InvokeEvent, InvokeRequest, SkillResult};
use openskill_tests::system::{Setup, System, data, request};
use prost::Message;
use serde_json::json;
use tokio::net::TcpStream;

const INVOKE: &str = "Invoke";
const GZIP: [(&str, &str); 2] = [("grpc-encoding", "gzip"), ("grpc-accept-encoding", "identity,gzip")];

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn framed(flag: u8, content: &[u8]) -> Vec<u8> {
    [&[flag][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

/// What a gateway answers: its headers and trailers, and its messages with their flags.
struct Answer {
    headers: HeaderMap,
    messages: Vec<(u8, Vec<u8>)>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |it| it.to_str().unwrap())
    }

    fn message<T: Message + Default>(&self, number: usize) -> T {
        let (flag, content) = &self.messages[number];
        let mut inflated = Vec::new();
        if *flag == 1 {
            GzDecoder::new(&content[..]).read_to_end(&mut inflated).unwrap();
        } else {
            inflated.clone_from(content);
        }
        T::decode(&inflated[..]).unwrap()
    }
}

async fn ask(system: &System, method: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let io = TokioIo::new(TcpStream::connect(system.address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("http://{}/openskill.v1.SkillService/{method}", system.address);
    let mut request = Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let mut headers = answer.headers().clone();
    let body = answer.into_body().collect().await.unwrap();
    headers.extend(body.trailers().cloned().unwrap_or_default());
    let (mut rest, mut messages) = (body.to_bytes(), Vec::new());
    while !rest.is_empty() {
        let head = rest.split_to(5);
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        messages.push((head[0], rest.split_to(length).to_vec()));
    }
    Answer { headers, messages }
}

fn echo(text: &str) -> Vec<u8> {
    request("in_echo", json!({ "text": text })).encode_to_vec()
}

#[tokio::test]
async fn compressed_messages_are_answered_in_kind_if_the_client_accepts_it_and_it_is_worthwhile() {
    let system = Setup::up().start().await;
    let (small, large) = ("hello", "hello ".repeat(1000));
    for (text, headers, flag, encoding) in [
        (small, &GZIP[..], 0, "gzip"),
        (&large, &GZIP, 1, "gzip"),
        (&large, &GZIP[..1], 0, ""),
        (&large, &[("grpc-accept-encoding", "gzip")], 0, ""),
    ] {
        let is_compressed = headers.contains(&GZIP[0]);
        let body = if is_compressed { framed(1, &gzip(&echo(text))) } else { framed(0, &echo(text)) };
        let answer = ask(&system, INVOKE, headers, body).await;
        assert_eq!(answer.header("grpc-status"), "0", "{headers:?}: {}", answer.header("grpc-message"));
        assert_eq!((answer.messages[0].0, answer.header("grpc-encoding")), (flag, encoding), "{headers:?}");
        assert_eq!(data(&answer.message::<SkillResult>(0)), json!({ "text": text }));
    }
}

#[tokio::test]
async fn a_stream_mixes_messages_that_are_compressed_and_not() {
    let system = Setup::up().start().await;
    let large = "hello ".repeat(1000);
    let call = |id: &str| InvokeRequest { call_id: id.to_owned(), ..request("in_echo", json!({ "text": large })) };
    let (first, second) = (call("1").encode_to_vec(), call("2").encode_to_vec());
    let body = [framed(1, &gzip(&first)), framed(0, &second)].concat();
    let answer = ask(&system, "InvokeMany", &GZIP, body).await;
    assert_eq!(answer.header("grpc-status"), "0", "{}", answer.header("grpc-message"));
    let events = (0..answer.messages.len()).map(|number| answer.message::<InvokeEvent>(number).event.unwrap());
    let results: Vec<_> =
        events.filter_map(|it| if let Event::Result(result) = it { Some(result) } else { None }).collect();
    assert_eq!(results.iter().map(data).collect::<Vec<_>>(), vec![json!({ "text": large }); 2]);
}

#[tokio::test]
async fn a_bomb_is_refused_and_other_calls_go_on() {
    let system = Setup::up().start().await;
    let bomb = framed(1, &gzip(&echo(&"0".repeat(16 << 20))));
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    for method in [INVOKE, "InvokeMany", "ListSkills"] {
        let answer = ask(&system, method, &GZIP, bomb.clone()).await;
        assert_eq!(answer.header("grpc-status"), "8", "{method}: {}", answer.header("grpc-message"));
        assert!(answer.header("grpc-message").contains("4194304"), "{}", answer.header("grpc-message"));
    }
    let broken = ask(&system, INVOKE, &GZIP, framed(1, b"no gzip")).await;
    assert_eq!(broken.header("grpc-status"), "13", "{}", broken.header("grpc-message"));
    assert!(system.invoke(request("in_echo", json!({}))).await.success);
}

#[tokio::test]
async fn other_encodings_are_refused_with_those_that_are_accepted() {
    let system = Setup::up().start().await;
    let answer = ask(&system, INVOKE, &[("grpc-encoding", "zstd")], framed(1, b"zstd")).await;
    assert_eq!((answer.header("grpc-status"), answer.header("grpc-accept-encoding")), ("12", "identity,gzip"));
}
