//! Decompresses a body up to a limit, because a small body may decompress to any size.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

use super::problem::ResearchProblem;

/// Decompresses a gzip body. Returns its first `most` bytes and whether there are more. A truncated body yields
/// whatever can be decompressed.
pub(super) fn unzip(body: &[u8], most: usize, is_cut: bool) -> Result<(Vec<u8>, bool), ResearchProblem> {
    let mut out = Vec::new();
    let read = MultiGzDecoder::new(body).take(most as u64 + 1).read_to_end(&mut out);
    if read.is_err() && !is_cut {
        return Err(ResearchProblem::Coding);
    }
    let is_longer = out.len() > most;
    out.truncate(most);
    Ok((out, is_longer || is_cut))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_bomb_is_cut() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        for _ in 0..64 {
            encoder.write_all(&[b'a'; 1 << 20]).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 100_000);
        assert_eq!(unzip(&bomb, 1000, false).unwrap(), (vec![b'a'; 1000], true));
        assert!(unzip(&bomb[..bomb.len() / 2], usize::MAX - 1, true).unwrap().0.len() > 1000);
        assert_eq!(unzip(b"not gzip", 1000, false), Err(ResearchProblem::Coding));
    }
}
