//! Arguments with too many values are refused in each form, with the bound.

use openskill_proto::limits::MAX_JSON_VALUES;
use openskill_proto::v1::InvokeRequest;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_tests::system::{Setup, System, code};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

/// An object that holds so many values, itself included.
fn text(values: usize) -> String {
    format!("{{\"a\":[{}]}}", vec!["1"; values - 2].join(","))
}

fn tree(values: usize) -> Struct {
    let number = Value { kind: Some(Kind::NumberValue(1.0)) };
    let list = Value { kind: Some(Kind::ListValue(ListValue { values: vec![number; values - 2] })) };
    Struct { fields: [("a".to_owned(), list)].into() }
}

fn echo(arguments: Arguments) -> InvokeRequest {
    InvokeRequest { skill_id: "in_echo".to_owned(), arguments: Some(arguments), ..InvokeRequest::default() }
}

async fn over_rest(system: &System, input: &str) -> (u16, String) {
    let answer = system.post("/skills/in_echo:invoke", &[], format!("{{\"input\":{input}}}")).await;
    (answer.status, answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn arguments_at_the_bound_are_taken_and_beyond_it_refused() {
    let system = Setup::up().start().await;
    let (most, beyond) = (MAX_JSON_VALUES, MAX_JSON_VALUES + 2);
    assert_eq!(over_rest(&system, &text(most)).await.0, 200);
    let (status, message) = over_rest(&system, &text(beyond)).await;
    assert!(status == 400 && message.contains("100000 values"), "{status}: {message}");
    let call = |values| format!("{{\"name\":\"in_echo\",\"arguments\":{}}}", text(values));
    for (arguments, expected) in [
        (Arguments::InputJson(text(most)), ""),
        (Arguments::Input(tree(most - 10)), ""),
        (Arguments::Call(call(most - 10)), ""),
        (Arguments::InputJson(text(beyond)), "INVALID_ARGUMENT"),
        (Arguments::Call(call(beyond)), "INVALID_ARGUMENT"),
        (Arguments::InputJson("[1,".repeat(1 << 20)), "INVALID_ARGUMENT"),
    ] {
        let result = system.invoke(echo(arguments)).await;
        assert_eq!(code(&result), expected, "{:?}", result.error);
        assert!(expected.is_empty() || result.text.contains("100000 values"), "{}", result.text);
    }
    // It is refused before it is decoded, like a message that is too large.
    let status = system.skills().await.invoke(echo(Arguments::Input(tree(beyond + 10)))).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("100000 values"), "{status:?}");
}

#[tokio::test]
async fn text_that_is_large_but_holds_few_values_is_taken() {
    let system = Setup::up().start().await;
    let input = format!("{{\"text\":\"{}\"}}", "[1,".repeat(1_000_000));
    assert_eq!(over_rest(&system, &input).await.0, 200);
    assert!(system.invoke(echo(Arguments::InputJson(input))).await.success);
}

#[tokio::test]
async fn large_arguments_are_still_validated_repaired_and_refused() {
    let system = Setup::up().start().await;
    let many = vec!["\"x\""; 3000].join(",");
    let of = |call: &str| InvokeRequest {
        skill_id: "typed".to_owned(),
        arguments: Some(Arguments::InputJson(call.to_owned())),
        ..InvokeRequest::default()
    };
    let unknown = system.invoke(of(&format!("{{\"unknown\":[{many}]}}"))).await;
    assert_eq!(code(&unknown), "INVALID_ARGUMENT", "{unknown:?}");
    let cut_off = system.invoke(of(&format!("{{\"unknown\":[{many}"))).await;
    assert_eq!(code(&cut_off), "INVALID_JSON", "{cut_off:?}");
}
