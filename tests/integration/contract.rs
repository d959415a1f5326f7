//! The contract breaks no program that was built with the contract of the last release.
//!
//! `proto/openskill/released.binpb` has that contract. Whoever makes a release writes it: `make release-contract`.

use openskill_tests::repository;
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};

mod breaking;

use breaking::breaks;

const RELEASED: &str = "proto/openskill/released.binpb";
const VARIABLE: &str = "OPENSKILL_RELEASE_CONTRACT";

/// The contract as it is, without comments.
fn current() -> FileDescriptorSet {
    let mut all = FileDescriptorSet::decode(openskill_proto::DESCRIPTORS).unwrap();
    all.file.iter_mut().for_each(|it| it.source_code_info = None);
    all
}

#[test]
fn the_contract_breaks_nobody_who_uses_the_last_release() {
    let path = repository().join(RELEASED);
    if std::env::var_os(VARIABLE).is_some() {
        std::fs::write(&path, current().encode_to_vec()).unwrap();
    }
    let released = FileDescriptorSet::decode(&*std::fs::read(&path).unwrap()).unwrap();
    assert!(released.file.iter().filter(|it| it.package() == "openskill.v1").count() >= 7, "{RELEASED} is not whole");
    let found = breaks(&released, &current());
    assert!(
        found.is_empty(),
        "the .proto files break programs of the last release; keep what is there, and add beside it:\n{}",
        found.join("\n")
    );
}

/// The message of this name in a set.
fn message<'a>(set: &'a mut FileDescriptorSet, name: &str) -> &'a mut DescriptorProto {
    let mut all = set.file.iter_mut().flat_map(|it| &mut it.message_type);
    all.find(|it| it.name() == name).unwrap()
}

#[test]
fn every_kind_of_break_is_found_and_additions_are_none() {
    let old = current();
    type Change = fn(&mut FileDescriptorSet);
    let changes: [(&str, Change); 12] = [
        ("field openskill.v1.InvokeRequest.skill_id was removed", |set| {
            message(set, "InvokeRequest").field.retain(|it| it.name() != "skill_id");
        }),
        ("field openskill.v1.InvokeRequest.skill_id was number 1 and is 999", |set| {
            let fields = &mut message(set, "InvokeRequest").field;
            fields.iter_mut().find(|it| it.name() == "skill_id").unwrap().number = Some(999);
        }),
        ("of openskill.v1.InvokeRequest was skill_id and is skill", |set| {
            let fields = &mut message(set, "InvokeRequest").field;
            fields.iter_mut().find(|it| it.name() == "skill_id").unwrap().name = Some("skill".to_owned());
        }),
        ("InvokeRequest.skill_id was optional string and is optional bytes", |set| {
            let fields = &mut message(set, "InvokeRequest").field;
            let field = fields.iter_mut().find(|it| it.name() == "skill_id").unwrap();
            field.set_type(prost_types::field_descriptor_proto::Type::Bytes);
        }),
        ("InvokeRequest.skill_id was optional string and is repeated string", |set| {
            let fields = &mut message(set, "InvokeRequest").field;
            let field = fields.iter_mut().find(|it| it.name() == "skill_id").unwrap();
            field.set_label(prost_types::field_descriptor_proto::Label::Repeated);
        }),
        ("InvokeRequest.input_json was optional string in oneof arguments", |set| {
            let fields = &mut message(set, "InvokeRequest").field;
            fields.iter_mut().find(|it| it.name() == "input_json").unwrap().oneof_index = None;
        }),
        ("message openskill.v1.InvokeRequest was removed", |set| {
            set.file.iter_mut().for_each(|it| it.message_type.retain(|it| it.name() != "InvokeRequest"));
        }),
        ("enum openskill.v1.ErrorCode was removed", |set| {
            set.file.iter_mut().for_each(|it| it.enum_type.retain(|it| it.name() != "ErrorCode"));
        }),
        ("value openskill.v1.ErrorCode.", |set| {
            let mut enums = set.file.iter_mut().flat_map(|it| &mut it.enum_type);
            enums.find(|it| it.name() == "ErrorCode").unwrap().value.pop();
        }),
        ("of openskill.v1.ErrorCode was", |set| {
            let mut enums = set.file.iter_mut().flat_map(|it| &mut it.enum_type);
            enums.find(|it| it.name() == "ErrorCode").unwrap().value[1].name = Some("OTHER".to_owned());
        }),
        ("method openskill.v1.SkillService/Invoke was removed", |set| {
            let mut services = set.file.iter_mut().flat_map(|it| &mut it.service);
            services.find(|it| it.name() == "SkillService").unwrap().method.retain(|it| it.name() != "Invoke");
        }),
        ("and is (stream .openskill.v1.InvokeRequest)", |set| {
            let mut services = set.file.iter_mut().flat_map(|it| &mut it.service);
            let methods = &mut services.find(|it| it.name() == "SkillService").unwrap().method;
            methods.iter_mut().find(|it| it.name() == "Invoke").unwrap().client_streaming = Some(true);
        }),
    ];
    for (expected, change) in changes {
        let mut new = old.clone();
        change(&mut new);
        let found = breaks(&old, &new);
        assert!(found.iter().any(|it| it.contains(expected)), "{expected}: {found:?}");
        // The other way round, each of these that takes something away is an addition.
        if expected.ends_with("was removed") {
            assert!(breaks(&new, &old).is_empty(), "{expected}");
        }
    }
    assert!(breaks(&old, &old).is_empty());
}
