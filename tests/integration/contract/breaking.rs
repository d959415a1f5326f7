//! What breaks programs that were built with an older contract. Pure.
//!
//! Names count as numbers do: REST, logs and the Python client use them.

use std::collections::BTreeMap;

use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use prost_types::{MethodDescriptorProto, OneofDescriptorProto};

/// Everything with a name in a set of files.
#[derive(Debug, Default)]
struct Contract {
    messages: BTreeMap<String, DescriptorProto>,
    enums: BTreeMap<String, EnumDescriptorProto>,
    methods: BTreeMap<String, MethodDescriptorProto>,
}

impl Contract {
    fn of(files: &FileDescriptorSet) -> Self {
        let mut all = Self::default();
        for file in files.file.iter().filter(|it| it.package().starts_with("openskill.")) {
            let package = file.package();
            file.message_type.iter().for_each(|it| all.message(package, it));
            file.enum_type.iter().for_each(|it| all.enumeration(package, it));
            for service in &file.service {
                let methods = service.method.iter();
                all.methods
                    .extend(methods.map(|it| (format!("{package}.{}/{}", service.name(), it.name()), it.clone())));
            }
        }
        all
    }

    fn message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        message.nested_type.iter().for_each(|it| self.message(&name, it));
        message.enum_type.iter().for_each(|it| self.enumeration(&name, it));
        self.messages.insert(name, message.clone());
    }

    fn enumeration(&mut self, scope: &str, of: &EnumDescriptorProto) {
        self.enums.insert(format!("{scope}.{}", of.name()), of.clone());
    }
}

/// Every way in which `new` breaks what `old` promised, in the order of names. Additions break nothing.
pub(super) fn breaks(old: &FileDescriptorSet, new: &FileDescriptorSet) -> Vec<String> {
    let (old, new) = (Contract::of(old), Contract::of(new));
    let mut found = Vec::new();
    for (name, before) in &old.messages {
        match new.messages.get(name) {
            Some(now) => fields(name, before, now, &mut found),
            None => found.push(format!("the message {name} was removed")),
        }
    }
    for (name, before) in &old.enums {
        match new.enums.get(name) {
            Some(now) => values(name, before, now, &mut found),
            None => found.push(format!("the enum {name} was removed")),
        }
    }
    for (name, before) in &old.methods {
        match new.methods.get(name) {
            Some(now) if signature(now) != signature(before) => {
                found.push(format!("the method {name} was {} and is {}", signature(before), signature(now)));
            }
            Some(_) => {}
            None => found.push(format!("the method {name} was removed")),
        }
    }
    found
}

fn signature(method: &MethodDescriptorProto) -> String {
    let stream = |streams: bool| if streams { "stream " } else { "" };
    let (input, output) = (method.input_type(), method.output_type());
    format!("({}{input}) -> {}{output}", stream(method.client_streaming()), stream(method.server_streaming()))
}

fn fields(message: &str, before: &DescriptorProto, now: &DescriptorProto, found: &mut Vec<String>) {
    for old in &before.field {
        let (name, number) = (old.name(), old.number());
        let Some(new) = now.field.iter().find(|it| it.number() == number) else {
            found.push(match now.field.iter().find(|it| it.name() == name) {
                Some(it) => format!("the field {message}.{name} was number {number} and is {}", it.number()),
                None => format!("the field {message}.{name} was removed"),
            });
            continue;
        };
        if new.name() != name {
            found.push(format!("the number {number} of {message} was {name} and is {}", new.name()));
        }
        let (was, is) = (kind(old, &before.oneof_decl), kind(new, &now.oneof_decl));
        if was != is {
            found.push(format!("the field {message}.{name} was {was} and is {is}"));
        }
    }
}

/// The type of a field, and what else its readers depend on: how often it is there, and which others it excludes.
fn kind(field: &FieldDescriptorProto, oneofs: &[OneofDescriptorProto]) -> String {
    let label = format!("{:?}", field.label()).to_lowercase();
    let of = match field.type_name() {
        "" => format!("{:?}", field.r#type()).to_lowercase(),
        name => name.trim_start_matches('.').to_owned(),
    };
    let oneof = field.oneof_index.and_then(|at| oneofs.get(at as usize));
    match oneof {
        Some(_) if field.proto3_optional() => format!("optional with presence {of}"),
        Some(oneof) => format!("{label} {of} in oneof {}", oneof.name()),
        None => format!("{label} {of}"),
    }
}

fn values(of: &str, before: &EnumDescriptorProto, now: &EnumDescriptorProto, found: &mut Vec<String>) {
    for old in &before.value {
        match now.value.iter().find(|it| it.number() == old.number()) {
            Some(new) if new.name() != old.name() => {
                found.push(format!("the value {} of {of} was {} and is {}", old.number(), old.name(), new.name()));
            }
            Some(_) => {}
            None => found.push(format!("the value {of}.{} was removed", old.name())),
        }
    }
}
