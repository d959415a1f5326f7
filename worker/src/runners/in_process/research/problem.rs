//! Why something was not searched or read: for warnings.

use std::time::Duration;

use crate::runners::http::cause::refusal;
use crate::runners::http::egress::Refusal;
use crate::runners::http::transport::SendError;

/// A reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::runners::in_process) enum Problem {
    #[error("'{host}' is {kind}, which OPENSKILL_RESEARCH_ALLOW does not list")]
    Address { host: String, kind: String },
    #[error("{0}")]
    Refused(String),
    #[error("it redirects too often, or to an unusable URL")]
    Redirects,
    #[error("it redirects to another site")]
    OtherSite,
    #[error("the server answered with status {0}")]
    Status(u16),
    #[error("the server refuses more requests for now (429)")]
    TooMany,
    #[error("there was no answer within {} ms", .0.as_millis())]
    TooSlow(Duration),
    #[error("the server cannot be reached")]
    Unreachable,
    #[error("the answer broke off")]
    BrokeOff,
    #[error("the answer is compressed in a way that was not asked for, or badly")]
    Coding,
    #[error("it is '{0}', which is not read")]
    Kind(String),
    #[error("the provider's answer is not what its API says")]
    Answer,
    #[error("robots.txt of its site forbids it")]
    Robots,
    #[error("{0}")]
    Pdf(String),
    #[error("the budget of {0} is used up")]
    Budget(&'static str),
    #[error("{0}")]
    Folder(String),
}

impl From<&Refusal> for Problem {
    fn from(refused: &Refusal) -> Self {
        match refused {
            Refusal::Address { host, kind } => Self::Address { host: host.clone(), kind: kind.to_string() },
            Refusal::Scheme(scheme) => Self::Refused(format!("only http and https are read, not '{scheme}'")),
            Refusal::Downgrade | Refusal::OtherOrigin => Self::Refused(refused.to_string()),
        }
    }
}

impl From<&SendError> for Problem {
    fn from(error: &SendError) -> Self {
        refusal(error).map_or(Self::Unreachable, Self::from)
    }
}
