//! Why a search failed or a page could not be read. Used in warnings.

use std::time::Duration;

use openskill_net::egress::cause::refusal;
use openskill_net::egress::reach::EgressRefusal;
use openskill_net::egress::transport::SendError;

use crate::pdf::PdfError;

/// Why a search failed or a page could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResearchProblem {
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
    #[error("the answer was cut off")]
    BrokeOff,
    #[error("the answer is compressed in a way that the request did not accept, or is corrupt")]
    Coding,
    #[error("the content type '{0}' is not supported")]
    Kind(String),
    #[error("the provider's answer does not match its API")]
    Answer,
    #[error("the site's robots.txt forbids it")]
    Robots,
    #[error("{0}")]
    Pdf(String),
    #[error("the budget of {0} is used up")]
    Budget(&'static str),
    #[error("{0}")]
    Folder(String),
}

impl From<PdfError> for ResearchProblem {
    fn from(error: PdfError) -> Self {
        match error {
            PdfError::Late => Self::Budget("time"),
            PdfError::Unreadable(reason) => Self::Pdf(reason),
        }
    }
}

impl From<&EgressRefusal> for ResearchProblem {
    fn from(refused: &EgressRefusal) -> Self {
        match refused {
            EgressRefusal::Address { host, kind } => Self::Address { host: host.clone(), kind: kind.to_string() },
            EgressRefusal::Scheme(scheme) => {
                Self::Refused(format!("only http and https are supported, not '{scheme}'"))
            }
            EgressRefusal::Downgrade | EgressRefusal::OtherOrigin => Self::Refused(refused.to_string()),
        }
    }
}

impl From<&SendError> for ResearchProblem {
    fn from(error: &SendError) -> Self {
        refusal(error).map_or(Self::Unreachable, Self::from)
    }
}
