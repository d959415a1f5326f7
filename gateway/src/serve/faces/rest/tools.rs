//! `GET /tools`: returns tool definitions for a model.

use axum::extract::{Request, State};
use axum::response::Response;
use openskill_proto::render;
use openskill_proto::v1::{Dialect, ErrorCode, ExportToolsRequest};

use super::body;
use crate::gateway::Shard;
use crate::serve::layers::request_context;
use crate::serve::tools;

pub(crate) async fn list(State(shard): State<Shard>, request: Request) -> Response {
    let wanted = match read(request.uri().query().unwrap_or_default()) {
        Ok(wanted) => wanted,
        Err(message) => return body::refuse(ErrorCode::InvalidArgument, message, &request),
    };
    let context = request_context(request.extensions());
    match tools::export(&shard.gateway, &context.principal, &wanted) {
        Ok(response) => body::json(render::tools(&response, wanted.dialect())),
        Err(error) => body::error(&error, &context.trace.id),
    }
}

/// Reads the query: `dialect`, `strict`, `toolset`, `skill` (may be repeated), `query`, `limit`, `session_id`,
/// `include_unavailable`.
fn read(query: &str) -> Result<ExportToolsRequest, String> {
    let mut request = ExportToolsRequest::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let flag = || match value.to_ascii_lowercase().as_str() {
            "true" | "1" | "" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(format!("{key} must be true or false")),
        };
        match &*key {
            "dialect" => {
                let names = || Dialect::NAMES.map(|(name, _)| name).join(", ");
                request.set_dialect(
                    Dialect::from_name(&value).ok_or_else(|| format!("dialect must be one of {}", names()))?,
                );
            }
            "strict" => request.strict = flag()?,
            "include_unavailable" => request.include_unavailable = flag()?,
            "toolset" => request.toolset = value.into_owned(),
            "skill" => request.skill_ids.push(value.into_owned()),
            "query" => request.query = value.into_owned(),
            "session_id" => request.session_id = value.into_owned(),
            "limit" => request.limit = value.parse().map_err(|_| "limit must be a whole number".to_owned())?,
            _ => {
                let known = "dialect, strict, toolset, skill, query, limit, session_id and include_unavailable";
                return Err(format!("the query may contain {known}"));
            }
        }
    }
    Ok(request)
}
