//! CORS, for web pages of the origins that the operator allows.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use openskill_proto::metadata::TRACE_ID;
use tower_http::cors::{AllowHeaders, CorsLayer};

use super::sites::Sites;

/// How long a browser may cache a preflight response.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Lets pages of these origins read all responses, including refusals. Other origins are refused earlier. None if
/// no origins are configured.
pub(crate) fn layer(sites: Option<&Sites>) -> Option<CorsLayer> {
    let origins: Vec<_> = sites.into_iter().flat_map(|it| &it.origins).collect();
    let origins: Vec<_> = origins.into_iter().filter_map(|it| HeaderValue::from_str(it).ok()).collect();
    if origins.is_empty() {
        return None;
    }
    let exposed = [
        HeaderName::from_static(TRACE_ID),
        HeaderName::from_static("mcp-session-id"),
        header::RETRY_AFTER,
        header::ETAG,
        header::CONTENT_RANGE,
        header::ALLOW,
        header::LOCATION,
        HeaderName::from_static("preference-applied"),
        header::WWW_AUTHENTICATE,
    ];
    let cors = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed)
        .max_age(MAX_AGE);
    Some(cors)
}
