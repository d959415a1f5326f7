// Content for a reader, and the blocks of it that fit a goal.

const cssPath = (el) => {
  const parts = [];
  for (let node = el, steps = 0; node instanceof Element && steps < 6; node = elementParent(node), steps += 1) {
    const tag = localName(node);
    const id = idOf(node);
    if (id && /^[A-Za-z][\w-]*$/.test(id)) {
      parts.unshift(`#${id}`);
      break;
    }
    if (tag === 'html' || tag === 'body') {
      parts.unshift(tag);
      break;
    }
    parts.unshift(`${tag}${nthOfType(node, tag)}`);
  }
  return oneLine(parts.join(' > '), VALUE_CHARS);
};

const nthOfType = (el, tag) => {
  const parent = parentNode(el);
  if (!parent) return '';
  let nth = 0;
  let count = 0;
  for (let child = firstChild(parent); child && count < 1000; child = nextSibling(child)) {
    if (child instanceof Element && localName(child) === tag) count += 1;
    if (child === el) nth = count;
  }
  return count > 1 ? `:nth-of-type(${nth})` : '';
};

const contentRoot = (selector) => {
  if (selector === undefined || selector === null || String(selector).trim() === '') return bodyElement() || rootElement();
  return bySelector(String(selector));
};

const placeOf = (block) => {
  const path = block.el ? cssPath(block.el) : '';
  const headings = block.headings.map((one) => oneLine(one, 80)).join(' > ');
  return headings ? `${headings} (${path})` : path;
};

const content = (args) => {
  const budget = new Budget(args.budget);
  const blocks = markdownOf(contentRoot(args.selector), budget, true);
  return { blocks: blocks.map(({ text, n }) => ({ text, n })), cut: budget.cut };
};

// Words that say what to do rather than what to find.
const STOP = new Set('a an and all any are as at be by each extract every find for from get give has have how i in into is it its list me of on or page please return show tell that the their there these this those to was what when where which who with you your'.split(' '));
const stem = (word) => word.replace(/(?:ies)$/, 'y').replace(/(?:es|s|ing|ed)$/, '');
const wordsOf = (text) => (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) || []);
// Scripts written without spaces are compared by pairs of characters.
const PAIRED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;
const termsOf = (text) => wordsOf(text).flatMap((word) => {
  if (!PAIRED.test(word)) return STOP.has(word) ? [] : [stem(word)];
  return word.length === 1 ? [word] : Array.from({ length: word.length - 1 }, (_, i) => word.slice(i, i + 2));
});

// BM25 over the blocks of the page, the headings above a block counting as its own words at half weight.
const K = 1.2;
const B = 0.6;
const rank = (blocks, goal) => {
  const wanted = [...new Set(termsOf(goal))];
  const bags = blocks.map((block) => ({ own: tally(termsOf(block.text)), above: tally(block.headings.flatMap(termsOf)) }));
  const lengths = bags.map(({ own }) => [...own.values()].reduce((sum, n) => sum + n, 0));
  const mean = lengths.reduce((sum, n) => sum + n, 0) / (lengths.length || 1) || 1;
  const scores = blocks.map(() => 0);
  for (const term of wanted) {
    const holding = bags.filter(({ own, above }) => own.has(term) || above.has(term)).length;
    if (holding === 0) continue;
    const weight = Math.log(1 + (blocks.length - holding + 0.5) / (holding + 0.5));
    bags.forEach(({ own, above }, i) => {
      const count = (own.get(term) || 0) + 0.5 * (above.get(term) || 0);
      scores[i] += (weight * count * (K + 1)) / (count + K * (1 - B + (B * lengths[i]) / mean));
    });
  }
  return scores;
};
const tally = (terms) => {
  const counts = new Map();
  for (const term of terms) counts.set(term, (counts.get(term) || 0) + 1);
  return counts;
};

const extract = (args) => {
  const budget = new Budget({ chars: 400000, ...(args.budget || {}) });
  const all = markdownOf(contentRoot(args.selector), budget, args.links === true);
  const blocks = all.filter((block) => !block.heading && !block.n);
  const scores = rank(blocks, String(args.goal));
  const most = Math.min(Math.max(Math.floor(Number(args.most) || 12), 1), 100);
  const best = blocks.map((block, i) => ({ block, score: scores[i], i })).filter(({ score }) => score > 0).sort((a, b) => b.score - a.score).slice(0, most);
  best.sort((a, b) => a.i - b.i);
  return {
    blocks: best.map(({ block, score }) => ({
      place: placeOf(block), heading: oneLine(block.headings[block.headings.length - 1] || '', NAME_CHARS), text: block.text, score: hundredth(score),
    })),
    of: blocks.length, cut: budget.cut,
  };
};
