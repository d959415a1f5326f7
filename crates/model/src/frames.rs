//! Provider events that contain data.

use openskill_text::sse::SseEvent;

/// The maximum size of an event, in bytes. Some providers repeat the whole answer and the tools in their last
/// event.
pub(crate) const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;

/// A server-sent event that contains data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The event name. Empty if the event has none.
    pub(crate) event: String,
    /// The event data.
    pub(crate) data: String,
}

impl Frame {
    /// Returns `None` for events without data, such as keepalives.
    pub(crate) fn from_event(event: SseEvent) -> Option<Self> {
        let frame = match event.error {
            Some(data) => Self { event: "error".to_owned(), data },
            None => Self { event: event.name, data: event.data? },
        };
        (!frame.data.trim().is_empty()).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_with_data_are_frames() {
        let data = |data: &str| SseEvent { data: Some(data.to_owned()), ..SseEvent::default() };
        let frame = |event: &str, data: &str| Some(Frame { event: event.to_owned(), data: data.to_owned() });
        assert_eq!(Frame::from_event(SseEvent { name: "x".to_owned(), ..data("{}") }), frame("x", "{}"));
        assert_eq!(Frame::from_event(SseEvent { error: Some("Oh".to_owned()), ..data("") }), frame("error", "Oh"));
        assert_eq!(Frame::from_event(data(" ")), None);
        assert_eq!(Frame::from_event(SseEvent { name: "ping".to_owned(), ..SseEvent::default() }), None);
    }
}
