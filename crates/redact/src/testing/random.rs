//! Random numbers and texts from a seed.

/// A random number generator (SplitMix64). Not for real secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a limit, or 0 if the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }

    /// Returns a random item.
    pub fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        let at = self.below(items.len());
        &items[at]
    }

    /// Returns text of `length` characters of an ASCII alphabet.
    pub fn text(&mut self, alphabet: &str, length: usize) -> String {
        (0..length).map(|_| char::from(*self.pick(alphabet.as_bytes()))).collect()
    }

    /// Returns letters and digits, with at least one upper-case letter, one lower-case letter and one digit.
    pub fn token(&mut self, length: usize) -> String {
        loop {
            let text = self.text(ALNUM, length);
            let has = |class: fn(&u8) -> bool| text.bytes().any(|byte| class(&byte));
            let is_varied = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
            if is_varied || length < 3 {
                return text;
            }
        }
    }

    /// Returns hexadecimal digits.
    pub fn hex(&mut self, length: usize) -> String {
        self.text("0123456789abcdef", length)
    }

    /// Returns a UUID of version 4.
    pub fn uuid(&mut self) -> String {
        format!("{}-{}-4{}-a{}-{}", self.hex(8), self.hex(4), self.hex(3), self.hex(3), self.hex(12))
    }

    /// Returns decimal digits.
    pub fn digits(&mut self, length: usize) -> String {
        self.text("0123456789", length)
    }
}

/// Letters and digits.
pub(super) const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
