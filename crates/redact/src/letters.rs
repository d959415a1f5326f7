//! Sets of three-letter combinations: a quick filter for the beginnings or endings of words. Pure.

/// Encodes three letters as a number. Only the lower five bits of each letter are used, which ignores case.
#[inline]
pub(crate) fn letters(text: &[u8], at: usize) -> u16 {
    match text.get(at..at + 3) {
        Some([a, b, c]) => u16::from(a & 31) << 10 | u16::from(b & 31) << 5 | u16::from(c & 31),
        _ => 0,
    }
}

/// A set of three-letter combinations, one bit for each.
#[derive(Debug)]
pub(crate) struct TrigramSet(Box<[u64; 512]>);

impl TrigramSet {
    #[inline]
    pub(crate) fn contains(&self, letters: u16) -> bool {
        self.0[usize::from(letters) / 64] >> (letters % 64) & 1 == 1
    }
}

impl FromIterator<u16> for TrigramSet {
    fn from_iter<I: IntoIterator<Item = u16>>(all: I) -> Self {
        let mut set = Box::new([0; 512]);
        for letters in all {
            set[usize::from(letters) / 64] |= 1_u64 << (letters % 64);
        }
        Self(set)
    }
}
