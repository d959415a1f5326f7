//! The process that reads a PDF file: the file on stdin, its text on stdout.
//!
//! It opens no other file and starts nothing. A file that crashes it, or takes too much of its memory or time, ends this
//! process, or has it ended, and nothing else.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use openskill_research::pdf_protocol::{MAX_FILE_BYTES, MAX_REPLY_BYTES, Reply};

/// Runs the process.
pub(crate) fn main() -> ExitCode {
    let mut file = Vec::new();
    if io::stdin().lock().take(MAX_FILE_BYTES as u64).read_to_end(&mut file).is_err() {
        return ExitCode::FAILURE;
    }
    match serde_json::to_vec(&read(&file)) {
        Ok(line) if io::stdout().lock().write_all(&line).is_ok() => ExitCode::SUCCESS,
        // The worker sees the end of the output without a reply.
        _ => ExitCode::FAILURE,
    }
}

fn read(file: &[u8]) -> Reply {
    let pages = match pdf_extract::extract_text_from_mem_by_pages(file) {
        Ok(pages) => pages,
        // Its text may hold anything of the file.
        Err(_) => return Reply::Failed("it is damaged, encrypted, or no PDF file".to_owned()),
    };
    let mut left = MAX_REPLY_BYTES / 4;
    let within = pages.into_iter().take_while(|page| {
        let fits = page.len() <= left;
        left = left.saturating_sub(page.len());
        fits
    });
    Reply::Pages(within.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pdf_file_is_said_to_be_none() {
        assert!(matches!(read(b"%PDF-1.7 nothing"), Reply::Failed(_)));
    }
}
