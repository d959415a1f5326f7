//! Where a pass stops: by byte, and by the first letters of a word.

use std::sync::LazyLock;

use crate::prose;
use crate::values::providers::letters;

/// Why a pass stops at a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    None,
    Word,
    Separator,
    Slash,
    Backslash,
    Percent,
    Dash,
    At,
    Angle,
    Tilde,
    Dollar,
    Escape,
    Beyond,
    Plus,
    Call,
}

static STOPS: [Stop; 256] = stops();

const fn stops() -> [Stop; 256] {
    let mut table = [Stop::None; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = match at as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => Stop::Word,
            b':' | b'=' => Stop::Separator,
            b'/' => Stop::Slash,
            b'\\' => Stop::Backslash,
            b'%' => Stop::Percent,
            b'-' => Stop::Dash,
            b'@' => Stop::At,
            b'>' => Stop::Angle,
            b'~' => Stop::Tilde,
            b'$' => Stop::Dollar,
            b'+' => Stop::Plus,
            b'(' => Stop::Call,
            0x1b => Stop::Escape,
            0x80..=0xff => Stop::Beyond,
            _ => Stop::None,
        };
        at += 1;
    }
    table
}

#[inline]
pub(super) fn stop(byte: u8) -> Stop {
    STOPS[byte as usize]
}

/// The first letters of some words.
pub(super) struct Beginnings(LazyLock<Box<[u64; 512]>>);

impl Beginnings {
    #[inline]
    pub(super) fn contains(&self, letters: u16) -> bool {
        self.0[usize::from(letters) / 64] >> (letters % 64) & 1 == 1
    }
}

/// Words after which a secret may follow, and those that begin hosts of webhooks and tokens of several parts.
pub(super) static WORDS: Beginnings = Beginnings(LazyLock::new(|| {
    let mut table = Box::new([0; 512]);
    let others: [&[u8]; 9] = [b"eyJ", b"atl", b"hoo", b"web", b"api", b"bot", b"dis", b"ope", b"otp"];
    for word in prose::WORDS.iter().chain(&prose::COMMANDS).chain(&others) {
        let letters = letters(word, 0);
        table[usize::from(letters) / 64] |= 1_u64 << (letters % 64);
    }
    table
}));
