//! Reads a file from a ZIP archive that is embedded in the binary.

use std::io::Read as _;

use flate2::read::DeflateDecoder;

/// Returns the content of the file at `path`, if the archive contains it. Supports stored and deflated files
/// without encryption, up to 4 GiB (APPNOTE.TXT 4.3).
pub(super) fn read(archive: &[u8], path: &str) -> Option<Vec<u8>> {
    let entry = entries(archive)?.find(|entry| entry.path == path.as_bytes())?;
    let header = archive.get(entry.header..)?;
    let start = 30 + number(header, 26, 2)? + number(header, 28, 2)?;
    let packed = header.get(start..start.checked_add(entry.packed)?)?;
    match entry.method {
        0 => Some(packed.to_vec()),
        8 => {
            let mut content = Vec::new();
            DeflateDecoder::new(packed).take(entry.unpacked as u64).read_to_end(&mut content).ok()?;
            Some(content)
        }
        _ => None,
    }
}

/// An entry of the central directory. Sizes and offsets are in bytes.
struct Entry<'a> {
    path: &'a [u8],
    method: usize,
    packed: usize,
    unpacked: usize,
    header: usize,
}

/// Reads the central directory. Its end record must be at the end of the archive, followed at most by a comment.
fn entries(archive: &[u8]) -> Option<impl Iterator<Item = Entry<'_>>> {
    let end = archive.get(archive.windows(4).rposition(|it| it == b"PK\x05\x06")?..)?;
    let mut rest = archive.get(number(end, 16, 4)?..)?;
    Some(std::iter::from_fn(move || {
        let header = rest.starts_with(b"PK\x01\x02").then_some(rest)?;
        let name = number(header, 28, 2)?;
        rest = header.get(46 + name + number(header, 30, 2)? + number(header, 32, 2)?..)?;
        Some(Entry {
            path: header.get(46..46 + name)?,
            method: number(header, 10, 2)?,
            packed: number(header, 20, 4)?,
            unpacked: number(header, 24, 4)?,
            header: number(header, 42, 4)?,
        })
    }))
}

/// Reads the little-endian number of `size` bytes at `at`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    Some(bytes.get(at..at + size)?.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}
