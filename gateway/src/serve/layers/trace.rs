//! Reads the trace headers of a request.

use http::{HeaderMap, HeaderValue};
use openskill_proto::metadata::{TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::trace::Trace;

/// Reads the trace headers. Ignores repeated ids, because a proxy may have used another one. Repeated `tracestate`
/// headers form one list.
pub(crate) fn read(headers: &HeaderMap) -> Trace {
    let all = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let only = |name| all(name).next().map(|first| (first, all(name).nth(1).is_some()));
    // A repeated trace id is replaced and reported, like a malformed one.
    let trace_id = only(TRACE_ID).map(|(id, is_repeated)| if is_repeated { b"" } else { id });
    let parent = only(TRACEPARENT).and_then(|(parent, is_repeated)| (!is_repeated).then_some(parent));
    let states: Vec<_> = all(TRACESTATE).collect();
    match states.as_slice() {
        [] => Trace::from_headers(trace_id, parent, None),
        [state] => Trace::from_headers(trace_id, parent, Some(state)),
        several => Trace::from_headers(trace_id, parent, Some(&several.join(&b','))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(given: &[(&'static str, &str)]) -> Trace {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        read(&headers)
    }

    #[test]
    fn one_of_each_is_used() {
        let trace = of(&[(TRACE_ID, "mine"), (TRACEPARENT, PARENT), (TRACESTATE, "a=1")]);
        assert_eq!((trace.id.as_str(), trace.state.as_str()), ("mine", "a=1"));
        assert_eq!(trace.context.to_traceparent(), PARENT);
    }

    #[test]
    fn of_several_parents_none_is_used_and_their_state_neither() {
        let trace = of(&[(TRACEPARENT, PARENT), (TRACEPARENT, PARENT), (TRACESTATE, "a=1")]);
        assert!(!trace.has_parent && trace.context.to_traceparent() != PARENT);
        assert_eq!(trace.state, "");
    }

    #[test]
    fn of_several_trace_ids_none_is_used() {
        let trace = of(&[(TRACE_ID, "mine"), (TRACE_ID, "theirs")]);
        assert!(trace.replaced && trace.id.len() == 32);
    }

    #[test]
    fn several_headers_of_state_are_one_list() {
        let trace = of(&[(TRACEPARENT, PARENT), (TRACESTATE, "a=1"), (TRACESTATE, "b=2,c=3")]);
        assert_eq!(trace.state, "a=1,b=2,c=3");
        assert_eq!(of(&[(TRACEPARENT, PARENT), (TRACESTATE, "a=1"), (TRACESTATE, "a=2")]).state, "");
    }
}
