//! How much work a text may cost. Usual text stays far below that; what a long text made to be slow would cost beyond it is
//! not looked at, and hidden.

use std::cell::Cell;

/// How much work every text may cost, whatever its length.
const FREE: usize = 2 << 20;
/// How much each of its bytes adds to that. The densest of 6,000 files of source code, documents and data takes 10.
const EACH_BYTE: usize = 8;
/// How much is read in all layers below the first, as a multiple of the text.
const LAYERS: usize = 3;
/// And at least this much.
const LEAST_LAYERS: usize = 1 << 16;

/// What steps of a pass cost, in about nanoseconds: fitted to the time that source code, documents, data and hostile text
/// take. Plain bytes are free.
pub(crate) mod cost {
    /// Stopping at a word, and at anything else.
    pub(crate) const WORD: usize = 5;
    pub(crate) const STOP: usize = 3;
    /// Beginning to look at a text, such as a string in JSON.
    pub(crate) const TEXT: usize = 80;
    /// Each byte of the second layer, and of those below it, which usual text hardly ever has.
    pub(crate) const SECOND_LAYER: usize = 1;
    pub(crate) const DEEPER_LAYER: usize = 4;
    /// Reading what a name says, if it was not read a moment ago.
    pub(crate) const NAME: usize = 200;
    /// A name that matters before a separator.
    pub(crate) const KEY: usize = 15;
    /// The value of a name.
    pub(crate) const VALUE: usize = 40;
    /// The authority of a URL.
    pub(crate) const AUTHORITY: usize = 30;
    pub(crate) const AT_SIGN: usize = 20;
    /// A word that is followed by a secret at times, and one that may begin a token.
    pub(crate) const KNOWN_WORD: usize = 10;
    pub(crate) const TOKEN: usize = 10;
    pub(crate) const CARD: usize = 20;
    pub(crate) const LONG_WORD: usize = 30;
    pub(crate) const BACKSLASH: usize = 5;
    pub(crate) const DASHES: usize = 5;
    pub(crate) const FLAG: usize = 60;
    /// A run of characters beyond ASCII.
    pub(crate) const BEYOND: usize = 10;
    /// A part that is replaced, and one that becomes a hash.
    pub(crate) const HIDING: usize = 25;
    pub(crate) const HASH: usize = 300;
}

/// The work that is left for one text and for all text within it.
#[derive(Debug)]
pub(crate) struct Budget {
    work: Cell<usize>,
    /// How many bytes may be read in further layers.
    layers: Cell<usize>,
}

impl Budget {
    pub(crate) fn for_text(length: usize) -> Self {
        let work = length.saturating_mul(EACH_BYTE).saturating_add(FREE);
        let layers = length.saturating_mul(LAYERS).max(LEAST_LAYERS);
        Self { work: Cell::new(work), layers: Cell::new(layers) }
    }

    /// Takes what a step costs.
    #[inline]
    pub(crate) fn spend(&self, cost: usize) {
        self.work.set(self.work.get().saturating_sub(cost));
    }

    /// Whether nothing is left: what follows is hidden, because it may be a secret.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.work.get() == 0
    }

    /// Takes what it costs to read a text of a further layer. How much of it may be read.
    pub(crate) fn layer(&self, length: usize, depth: u8) -> usize {
        let cost = if depth > 1 { cost::DEEPER_LAYER } else { cost::SECOND_LAYER };
        // Something has to be left for looking at what was read.
        let may_read = length.min(self.layers.get()).min(self.work.get() / (cost + EACH_BYTE));
        self.layers.set(self.layers.get() - may_read);
        self.spend(may_read * cost);
        may_read
    }
}
