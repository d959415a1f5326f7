//! Tests of reading a process's lines.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::*;

#[tokio::test]
async fn lines_are_bounded_and_what_follows_one_is_kept() {
    let long = [vec![b'x'; MAX_LINE_BYTES + CHUNK], b"\nlast\nhalf".to_vec()].concat();
    let text = [b"one\n\ntwo\n".to_vec(), long].concat();
    let (mut lines, mut from) = (LineReader::default(), text.as_slice());
    let mut read = Vec::new();
    loop {
        match lines.next(&mut from).await {
            Read::End => break,
            it => read.push(it),
        }
    }
    let line = |text: &str| Read::Line(text.as_bytes().to_vec());
    assert_eq!(read, [line("one"), line(""), line("two"), Read::TooLong, line("last")]);
}

/// A stream that has all bytes at once, and records the maximum size of a read.
struct Burst {
    text: std::io::Cursor<Vec<u8>>,
    most: usize,
}

impl AsyncRead for Burst {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.most = self.most.max(into.remaining());
        Pin::new(&mut self.text).poll_read(cx, into)
    }
}

#[tokio::test]
async fn a_line_is_too_long_also_if_its_last_read_ends_it() {
    let text = [vec![b'x'; MAX_LINE_BYTES + 1], b"\n\n".to_vec()].concat();
    let (mut lines, mut from) = (LineReader::default(), text.as_slice());
    assert_eq!(lines.next(&mut from).await, Read::TooLong);
    assert_eq!(lines.next(&mut from).await, Read::Line(Vec::new()));
}

#[tokio::test]
async fn many_lines_at_once_are_taken_in_small_reads_and_leave_time_to_others() {
    const EMPTY: usize = 100_000;
    let text = [vec![b'x'; MAX_LINE_BYTES / 2], vec![b'\n'; EMPTY]].concat();
    let reader = tokio::spawn(async move {
        let (mut lines, mut from, mut count) =
            (LineReader::default(), Burst { text: std::io::Cursor::new(text), most: 0 }, 0);
        while lines.next(&mut from).await != Read::End {
            count += 1;
        }
        (count, from.most)
    });
    let mut turns = 0;
    while !reader.is_finished() {
        turns += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(reader.await.unwrap(), (EMPTY, CHUNK));
    assert!(turns >= EMPTY / 1000, "{turns} turns of another task in {EMPTY} lines");
}

#[tokio::test]
async fn what_was_given_out_is_not_moved_line_by_line() {
    let text = b"\n".repeat(CHUNK);
    let (mut lines, mut from) = (LineReader::default(), text.as_slice());
    for given in 1..CHUNK {
        assert_eq!(lines.next(&mut from).await, Read::Line(Vec::new()));
        assert_eq!((lines.waiting.len(), lines.begin), (CHUNK, given));
    }
}

#[test]
fn the_end_of_a_cell_is_read_and_bounded() {
    let line =
        br#"{"session": {"ended": {"cell": 3, "return_code": 1, "result": null, "error": {"name": "E"}, "more": 1}}}"#;
    let error = Some(Exception { name: "E".to_owned(), ..Exception::default() });
    assert_eq!(
        parse_notice(line),
        Some(SessionNotice::Ended(CellEnd { cell: 3, return_code: 1, error, ..CellEnd::default() }))
    );
    let long = serde_json::json!({"session": {"ended": {"cell": 1, "result": "\u{fc}".repeat(MAX_RESULT_BYTES), "notes": vec!["n"; 100]}}});
    let Some(SessionNotice::Ended(ended)) = parse_notice(long.to_string().as_bytes()) else { panic!("no end") };
    assert_eq!((ended.result.unwrap().len(), ended.notes.len()), (MAX_RESULT_BYTES, MAX_LISTED));
    assert_eq!(parse_notice(br#"{"session": {"ready": true}}"#), Some(SessionNotice::Ready(true)));
}

#[test]
fn other_lines_and_broken_ones_say_nothing_of_the_session() {
    for line in [
        &b"{\"partial\": 1}"[..],
        b"{\"session\": 1}",
        b"{\"session\": {\"ended\": {\"cell\": -1}}}",
        b"{\"session\": {\"ended\": {\"cell\": 1, \"result\": 1}}}",
        b"{\"session\": {\"ended\": ",
        b"{\"session\": {\"other\": 1}}",
        b"\xff",
        b"",
    ] {
        assert_eq!(parse_notice(line), None, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn an_end_that_cannot_be_read_is_known() {
    let whole = r#"{"session": {"ended": {"cell": 1, "error": {"message": "x"}}}}"#;
    assert!(!is_broken_end(whole.as_bytes(), 1));
    for broken in [&whole.replace('x', r"\udc80"), &whole[..40], &whole.replace("error\": ", "error\": 1")] {
        assert!(is_broken_end(broken.as_bytes(), 1), "{broken}");
        assert!(!is_broken_end(broken.as_bytes(), 2), "{broken}");
    }
    // An interrupt may leave such lines.
    for other in [r#"{"session": {"beg"#, r#"{"session""#, r#"{"artifact": "#, ""] {
        assert!(!is_broken_end(other.as_bytes(), 1), "{other}");
    }
}

#[test]
fn a_cell_is_one_line() {
    assert_eq!(run(1, "a = \"\n\""), b"{\"run\":{\"cell\":1,\"code\":\"a = \\\"\\n\\\"\"}}\n");
}
