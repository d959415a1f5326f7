//! The PDF process: reads a file from stdin and writes its text to stdout.
//!
//! It opens no other files and starts no processes. If a file crashes it or uses too much memory or time, only
//! this process is lost.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use openskill_readers_protocol::pdf::{MAX_FILE_BYTES, MAX_REPLY_BYTES, PdfReply};

/// Reads one file from stdin and writes its text.
pub(crate) fn main() -> ExitCode {
    let mut file = Vec::new();
    if io::stdin().lock().take(MAX_FILE_BYTES as u64).read_to_end(&mut file).is_err() {
        return ExitCode::FAILURE;
    }
    match serde_json::to_vec(&read(&file)) {
        Ok(line) if io::stdout().lock().write_all(&line).is_ok() => ExitCode::SUCCESS,
        // Exit without a reply: the worker treats the closed pipe as a failure.
        _ => ExitCode::FAILURE,
    }
}

fn read(file: &[u8]) -> PdfReply {
    let pages = match pdf_extract::extract_text_from_mem_by_pages(file) {
        Ok(pages) => pages,
        // Do not forward the error text: it may contain parts of the file.
        Err(_) => return PdfReply::Failed("it is damaged, encrypted, or not a PDF file".to_owned()),
    };
    let mut left = MAX_REPLY_BYTES / 4;
    let within = pages.into_iter().take_while(|page| {
        let fits = page.len() <= left;
        left = left.saturating_sub(page.len());
        fits
    });
    PdfReply::Pages(within.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pdf_file_is_said_to_be_none() {
        assert!(matches!(read(b"%PDF-1.7 nothing"), PdfReply::Failed(_)));
    }
}
