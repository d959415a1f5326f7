//! Splits a body into server-sent events. Pure: the borders of the chunks it arrives in do not matter.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

/// The longest event, in bytes. Some providers repeat the whole answer, and the tools, in their last event.
pub(super) const MAX_FRAME_BYTES: usize = 8 * 1024 * 1024;

/// One event with data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its name. Empty if it has none.
    pub(super) event: String,
    /// Its data.
    pub(super) data: String,
}

/// Why a body cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    /// An event exceeds [`MAX_FRAME_BYTES`].
    TooLarge,
    /// A line is not UTF-8.
    NotUtf8,
}

/// Splits a body that arrives in chunks. Buffers at most one incomplete event.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The incomplete line.
    line: Vec<u8>,
    /// The last line ended with CR: a following LF belongs to it.
    after_cr: bool,
    is_past_first_line: bool,
    frame: Frame,
    has_data: bool,
}

impl Frames {
    /// The events that these bytes complete.
    ///
    /// # Errors
    /// [`FrameError`]. The rest of the body cannot be split.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut complete = Vec::new();
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() + self.frame.data.len() + self.frame.event.len() > MAX_FRAME_BYTES {
                return Err(FrameError::TooLarge);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            complete.extend(self.end_line()?);
        }
        Ok(complete)
    }

    /// The event that the end of the body ends. The standard discards it, but some servers forget the last empty line.
    /// It may be incomplete.
    pub(super) fn end(mut self) -> Option<Frame> {
        let last = if self.line.is_empty() { None } else { self.end_line().ok()? };
        last.or_else(|| self.end_frame())
    }

    fn end_line(&mut self) -> Result<Option<Frame>, FrameError> {
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| FrameError::NotUtf8)?;
        let is_first = !std::mem::replace(&mut self.is_past_first_line, true);
        let line = if is_first { line.trim_start_matches('\u{feff}') } else { line };
        if line.is_empty() {
            return Ok(self.end_frame());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.frame.event),
            "data" => self.add(value),
            // A field of older llama.cpp servers, for failures within a stream.
            "error" => {
                "error".clone_into(&mut self.frame.event);
                self.add(value);
            }
            // A comment, or a field for clients that reconnect.
            _ => {}
        }
        Ok(None)
    }

    fn add(&mut self, value: &str) {
        if std::mem::replace(&mut self.has_data, true) {
            self.frame.data.push('\n');
        }
        self.frame.data.push_str(value);
    }

    /// Events without data keep connections open.
    fn end_frame(&mut self) -> Option<Frame> {
        self.has_data = false;
        let frame = std::mem::take(&mut self.frame);
        (!frame.data.trim().is_empty()).then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(body: &[u8], size: usize) -> Vec<(String, String)> {
        let mut frames = Frames::default();
        let mut found: Vec<_> = body.chunks(size).flat_map(|chunk| frames.take(chunk).unwrap()).collect();
        found.extend(frames.end());
        found.into_iter().map(|it| (it.event, it.data)).collect()
    }

    #[test]
    fn events_are_found_whatever_the_chunks() {
        let body = "\u{feff}: hello\r\n\r\ndata: é🦀1\r\ndata:2\r\rid: 7\nevent: ping\ndata: {}\nretry: 5\n\nevent: x\n\ndata\n\n\
                    data: \n\nerror: {\"code\":400}\n\ndata: end";
        let expected = [("", "é🦀1\n2"), ("ping", "{}"), ("error", "{\"code\":400}"), ("", "end")];
        let expected = expected.map(|it| (it.0.to_owned(), it.1.to_owned()));
        for size in 1..=body.len() {
            assert_eq!(split(body.as_bytes(), size), expected, "chunks of {size} bytes");
        }
    }

    #[test]
    fn a_line_that_is_not_utf8_is_an_error() {
        assert_eq!(Frames::default().take(b"data: \xff\n\n"), Err(FrameError::NotUtf8));
        let mut frames = Frames::default();
        frames.take("data: é".as_bytes().split_last().unwrap().1).unwrap();
        assert_eq!(frames.end(), None, "a character cut in half is no event");
    }

    #[test]
    fn an_event_has_a_bound_whether_in_one_line_or_in_many() {
        let mut frames = Frames::default();
        let chunk = vec![b'x'; MAX_FRAME_BYTES / 2];
        frames.take(&chunk).unwrap();
        frames.take(&chunk).unwrap();
        assert_eq!(frames.take(b"x"), Err(FrameError::TooLarge));
        let mut frames = Frames::default();
        let line = [b"data:".as_slice(), &chunk, b"\n"].concat();
        frames.take(&line).unwrap();
        assert_eq!(frames.take(&line), Err(FrameError::TooLarge));
    }
}
