//! The operation that a client calls, and its protocol. Names are fixed, and contain no text from clients.

use crate::state::limits::SharedLimit;

/// A gRPC method, or an HTTP method with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Its name in spans: `openskill.v1.SkillService/Invoke`, or `POST /skills/{id}:invoke`.
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) method: HttpMethod,
    /// The path, or a template with parameters: `/skills/{id}:invoke`.
    pub(crate) path: &'static str,
    pub(crate) streaming: Streaming,
    pub(crate) access: Access,
    /// How to audit an administrator's request. None if the operation neither shows nor changes what belongs to
    /// other principals.
    pub(crate) audit: Option<Audit>,
    /// The pool that its requests count towards. None for calls, which are admitted later, and for probes, which
    /// are always answered.
    pub(crate) limit: Option<SharedLimit>,
}

/// The protocol that a client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    Rest,
    Mcp,
}

/// The HTTP methods that operations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpMethod {
    Get,
    Post,
    Delete,
}

/// Which sides send more than one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streaming {
    Neither,
    Server,
    Both,
}

/// Who may call an operation, if the gateway requires keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everyone, without a key.
    Open,
    /// Callers with a valid key or token.
    Principal,
    /// Only administrators.
    Administrator,
}

/// The kind of audit log entry for an administrator's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audit {
    Change,
    Insight,
}

impl Operation {
    /// The operation of a call that no client sent.
    pub(crate) const INTERNAL: Self = Self::grpc("/call");

    /// The operation of a call that a client submitted earlier.
    pub(crate) const SUBMITTED: Self = Self::grpc("/openskill.v1.OperationService/Submit");

    /// The operation of a call that an MCP client sent to a gateway that is gone.
    pub(crate) const TASK: Self = Self { protocol: Protocol::Mcp, ..Self::http("POST /mcp") };

    /// Creates a gRPC method without streams from its path.
    pub(crate) const fn grpc(path: &'static str) -> Self {
        let (_, name) = path.split_at(1);
        Self { name, path, protocol: Protocol::Grpc, ..Self::http("POST /") }
    }

    /// Creates an HTTP operation from `METHOD /path`.
    pub(crate) const fn http(name: &'static str) -> Self {
        let (method, length) = match name.as_bytes() {
            [b'G', ..] => (HttpMethod::Get, "GET".len()),
            [b'D', ..] => (HttpMethod::Delete, "DELETE".len()),
            _ => (HttpMethod::Post, "POST".len()),
        };
        let (_, path) = name.split_at(length + 1);
        Self {
            name,
            path,
            method,
            protocol: Protocol::Rest,
            streaming: Streaming::Neither,
            access: Access::Principal,
            audit: None,
            limit: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_method_and_the_path() {
        let delete = Operation::http("DELETE /agent/conversations/{id}");
        assert_eq!((delete.method, delete.path), (HttpMethod::Delete, "/agent/conversations/{id}"));
        let invoke = Operation::grpc("/openskill.v1.SkillService/Invoke");
        assert_eq!((invoke.name, invoke.method), ("openskill.v1.SkillService/Invoke", HttpMethod::Post));
    }
}
