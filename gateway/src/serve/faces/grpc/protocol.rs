//! Checks that a request can be a gRPC call: POST over HTTP/2 with gRPC's media type. Other requests get the HTTP
//! status that the gRPC protocol and grpc-go prescribe.
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use axum::Router;
use axum::body::Body;
use axum::extract::Request as AxumRequest;
use axum::middleware::{Next, from_fn};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use tonic::service::Routes;

use crate::serve::layers::encoding::has_grpc_type;

/// Wraps services in routes that refuse all other requests.
pub(crate) fn only_grpc(services: Routes) -> Router {
    services.into_axum_router().route_layer(from_fn(pass))
}

async fn pass(request: AxumRequest, next: Next) -> Response<Body> {
    match refusal(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

/// Returns the response that refuses a request that is not a gRPC call. None if it is one.
pub(crate) fn refusal<B>(request: &Request<B>) -> Option<Response<Body>> {
    let (status, message) = if request.version() != Version::HTTP_2 {
        (StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC needs HTTP/2; for REST over HTTP/1.1, see GET /docs\n")
    } else if request.method() != Method::POST {
        (StatusCode::METHOD_NOT_ALLOWED, "gRPC methods are called with POST\n")
    } else if !has_grpc_type(request.headers()) {
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "gRPC requires the content type application/grpc\n")
    } else {
        return None;
    };
    let mut refusal = Response::new(Body::from(message));
    *refusal.status_mut() = status;
    let headers = refusal.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
    }
    Some(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(version: Version, method: Method, kind: Option<&str>) -> Option<u16> {
        let mut request = Request::new(());
        (*request.version_mut(), *request.method_mut()) = (version, method);
        if let Some(kind) = kind {
            request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
        }
        refusal(&request).map(|it| it.status().as_u16())
    }

    #[test]
    fn a_post_of_grpc_over_http2_is_a_call() {
        for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC; charset=utf-8"] {
            assert_eq!(status(Version::HTTP_2, Method::POST, Some(kind)), None, "{kind}");
        }
    }

    #[test]
    fn what_is_no_grpc_call_gets_the_status_that_says_why() {
        for kind in [None, Some("text/plain"), Some("application/grpc-web+proto"), Some("application/grpc+json")] {
            assert_eq!(status(Version::HTTP_2, Method::POST, kind), Some(415), "{kind:?}");
        }
        assert_eq!(status(Version::HTTP_2, Method::GET, Some("application/grpc")), Some(405));
        assert_eq!(status(Version::HTTP_11, Method::POST, Some("application/grpc")), Some(505));
    }
}
