//! What users and operators see, driven over the wire against the built binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs)]

mod arguments;
mod artifacts;
mod bad_input;
mod calls;
mod circuits;
mod command_line;
mod command_line_calls;
mod compose;
mod conformance;
mod docker;
mod exec;
mod fair_shares;
mod hostile_peers;
mod hostile_skills;
mod hostile_values;
mod http;
mod input_required;
mod interpreters;
mod jail;
mod killed_worker;
mod last_word;
mod manifests;
mod many;
mod mcp;
mod mcp_http;
mod mcp_servers;
mod metrics;
mod narrowed_root;
mod new_skill;
mod once;
mod paths;
mod quiet_logs;
mod readme;
mod recorder;
mod sessions;
mod shipped_skills;
mod shutdown;
mod slow_clients;
mod structure;
mod tools;
mod traces;
mod walls;
mod warm;
mod workers;
