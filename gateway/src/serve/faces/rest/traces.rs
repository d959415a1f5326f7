//! `GET /traces` and `GET /traces/{id}`: returns recorded calls.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use openskill_proto::render;
use openskill_proto::timestamp::{Timestamp, parse_duration};
use openskill_proto::v1::{ErrorCode, ListTracesRequest, TraceFilter};

use super::body;
use crate::serve::traces::{NoTraces, Traces};

pub(crate) async fn list(State(traces): State<Traces>, request: Request) -> Response {
    let wanted = match read(request.uri().query().unwrap_or_default(), Timestamp::now()) {
        Ok(wanted) => wanted,
        Err(message) => return body::refuse(ErrorCode::InvalidArgument, message, &request),
    };
    let reader = traces.reader(request.extensions());
    match traces.list(wanted, reader).await {
        Ok(page) => body::json(render::traces(&page)),
        Err(error) => refuse(error, &request),
    }
}

pub(crate) async fn one(
    State(traces): State<Traces>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let reader = traces.reader(request.extensions());
    // A path that is not UTF-8 can't be an id.
    let id = id.map(|Path(id)| id).unwrap_or_default();
    match traces.get(id, reader).await {
        Ok(trace) => body::json(render::trace(&trace)),
        Err(error) => refuse(error, &request),
    }
}

pub(super) fn refuse(error: NoTraces, request: &Request) -> Response {
    let code = match error {
        NoTraces::Elsewhere => ErrorCode::PermissionDenied,
        NoTraces::Off | NoTraces::UnknownId | NoTraces::NotRunning => ErrorCode::NotFound,
        NoTraces::UnknownCursor | NoTraces::SeveralPrincipals => ErrorCode::InvalidArgument,
    };
    body::refuse(code, error.to_string(), request)
}

/// Reads the query: `skill`, `code`, `principal`, `session`, `min_duration`, `since`, `until`, `limit`, `cursor`.
fn read(query: &str, now: Timestamp) -> Result<ListTracesRequest, String> {
    let mut request = ListTracesRequest::default();
    let mut filter = TraceFilter::default();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        let time = || {
            let ago = Timestamp::parse_ago(&value, now);
            ago.map(|it| it.0)
                .ok_or_else(|| format!("{key} must be a time such as 2026-01-31T12:00:00Z, or an age such as 15m"))
        };
        match &*key {
            "skill" => filter.skill_id = value.into_owned(),
            "code" => filter.code = value.into_owned(),
            "principal" => filter.principal = value.into_owned(),
            "session" => filter.session_id = value.into_owned(),
            "min_duration" => {
                let duration = parse_duration(&value);
                let duration = duration.ok_or("min_duration must be a duration such as 250ms, 2s or 5m")?;
                filter.min_duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
            }
            "since" => filter.since_us = time()?,
            "until" => filter.until_us = time()?,
            "limit" => request.limit = value.parse().map_err(|_| "limit must be a whole number".to_owned())?,
            "cursor" => request.cursor = value.into_owned(),
            _ => {
                let known = "skill, code, principal, session, min_duration, since, until, limit and cursor";
                return Err(format!("the query may contain {known}"));
            }
        }
    }
    request.filter = Some(filter);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_whole_or_refused() {
        let query = "skill=echo&code=OK&principal=p&session=s&min_duration=1.5ms&since=1s&until=1970-01-01T00:00:09Z\
                     &limit=5&cursor=c";
        let filter = TraceFilter {
            skill_id: "echo".to_owned(),
            code: "OK".to_owned(),
            principal: "p".to_owned(),
            session_id: "s".to_owned(),
            min_duration_us: 1500,
            since_us: 1_000_000,
            until_us: 9_000_000,
        };
        let expected = ListTracesRequest { filter: Some(filter), limit: 5, cursor: "c".to_owned() };
        assert_eq!(read(query, Timestamp(2_000_000)), Ok(expected));
        for query in ["skills=a", "since=yesterday", "min_duration=5", "limit=-1"] {
            assert!(read(query, Timestamp(0)).is_err(), "{query}");
        }
    }
}
