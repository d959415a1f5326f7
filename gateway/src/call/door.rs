//! By which way a call came in. The names are fixed: nothing that a caller wrote is in them.

/// The operation that a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Door {
    /// `openskill.v1.SkillService/Invoke`, `POST /skills/{id}:invoke`, or `POST /mcp/{view}`.
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    /// The caller gets events.
    pub(crate) streams: bool,
}

/// How the caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    Rest,
    Mcp,
}

const fn door(name: &'static str, protocol: Protocol, streams: bool) -> Door {
    Door { name, protocol, streams }
}

/// A call that no client sent.
const INSIDE: Door = door("call", Protocol::Grpc, false);

impl Door {
    /// The door of a request with this path.
    pub(crate) fn of(path: &str) -> Self {
        match path {
            "/openskill.v1.SkillService/Invoke" => door("openskill.v1.SkillService/Invoke", Protocol::Grpc, false),
            "/openskill.v1.SkillService/InvokeStream" => {
                door("openskill.v1.SkillService/InvokeStream", Protocol::Grpc, true)
            }
            "/openskill.v1.SkillService/InvokeMany" => {
                door("openskill.v1.SkillService/InvokeMany", Protocol::Grpc, true)
            }
            "/mcp" => door("POST /mcp", Protocol::Mcp, false),
            path if path.starts_with("/mcp/") => door("POST /mcp/{view}", Protocol::Mcp, false),
            "/skills:invoke" => door("POST /skills:invoke", Protocol::Rest, false),
            "/skills:stream" => door("POST /skills:stream", Protocol::Rest, true),
            path if path.ends_with(":invoke") => door("POST /skills/{id}:invoke", Protocol::Rest, false),
            path if path.ends_with(":stream") => door("POST /skills/{id}:stream", Protocol::Rest, true),
            // An escaped colon.
            path if path.starts_with("/skills") => door("POST /skills/{id}:invoke", Protocol::Rest, false),
            _ => INSIDE,
        }
    }

    /// The template of the path, over HTTP.
    pub(crate) fn route(&self) -> &'static str {
        self.name.strip_prefix("POST ").unwrap_or(self.name)
    }
}

impl Default for Door {
    fn default() -> Self {
        INSIDE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_writes_into_a_path_is_in_no_name() {
        for path in [
            "/skills/s3cret:invoke",
            "/skills/s3cret/x:stream",
            "/s3cret",
            "/skills/s3cret%3Ainvoke",
            "/mcp/s3cret",
            "/mcp/s3cret:invoke",
        ] {
            assert!(!Door::of(path).name.contains("s3cret"), "{path}");
        }
        assert_eq!(Door::of("/skills/echo:invoke").route(), "/skills/{id}:invoke");
    }

    #[test]
    fn calls_of_mcp_are_the_same_at_every_view() {
        for (path, route) in [("/mcp", "/mcp"), ("/mcp/files", "/mcp/{view}"), ("/mcp/a:invoke", "/mcp/{view}")] {
            let door = Door::of(path);
            assert_eq!((door.protocol, door.streams, door.route()), (Protocol::Mcp, false, route), "{path}");
        }
    }
}
