// Texts on the page, and scrolling.

const scrollsBy = (el) => /^(auto|scroll|overlay)$/.test(getComputedStyle(el).overflowY) && scrollHeight(el) > clientHeight(el) + 1;

// The innermost element that holds the text as it reads, across inline markup.
const textPlaces = (wanted, budget) => {
  const needle = fold(wanted);
  const found = [];
  const near = [];
  const first = needle.split(' ')[0];
  const seek = (el, depth) => {
    if (!budget.node() || depth > MOST_DEPTH || UNREAD.has(localName(el))) return false;
    let inside = false;
    eachChild(el, (child) => {
      if (nodeType(child) === 1 && seek(child, depth + 1)) inside = true;
      return !budget.over;
    });
    if (inside) return true;
    const text = fold(ownText(el));
    if (!text.includes(needle)) {
      if (first && near.length < 5 && text.includes(first) && shownOf(el).ok) near.push(oneLine(ownText(el)));
      return false;
    }
    if (!shownOf(el).ok) return false;
    found.push(el);
    return true;
  };
  const root = rootElement();
  if (root) seek(root, 0);
  return { found, near };
};

// Text of an element; long subtrees are only read when they are made of inline parts.
const ownText = (el) => {
  let blocks = 0;
  eachChild(el, (child) => {
    if (nodeType(child) === 1 && BLOCK_TAGS.has(localName(child))) blocks += 1;
    return blocks < 2;
  });
  if (blocks < 2) return plainText(el, 5000);
  let out = '';
  eachChild(el, (child) => {
    if (nodeType(child) === 3) out += child.data;
  });
  return out;
};

const findText = (args) => {
  const wanted = String(args.text);
  if (fold(wanted) === '') refuse('bad_value', 'The text to look for is empty.');
  const { found, near } = textPlaces(wanted, new Budget(args.budget));
  if (found.length === 0) return { found: false, near };
  const [el] = found;
  scrollTo(el, { block: 'center', inline: 'nearest', behavior: 'instant' });
  const box = boxOf(el);
  const n = numbers.get(listedAround(el)) || null;
  return { found: true, count: found.length, n, box: [box.left, box.top, box.width, box.height].map(round) };
};

// The scroller an unnamed scroll means: the document, or the largest one that is drawn when the document cannot move.
const mainScroller = () => {
  const page = ofDocument('scrollingElement') || rootElement();
  if (scrollHeight(page) > clientHeight(page) + 1 && getComputedStyle(page).overflowY !== 'hidden') return page;
  let best = page;
  let area = 0;
  const budget = new Budget({ nodes: 20000, ms: 100 });
  for (const el of queryAll(DOC, '*')) {
    if (!budget.node()) break;
    if (scrollHeight(el) <= clientHeight(el) + 1) continue;
    const box = meet(boxOf(el), viewportBox());
    const covers = empty(box) ? 0 : (box.right - box.left) * (box.bottom - box.top);
    if (covers > area && scrollsBy(el)) {
      best = el;
      area = covers;
    }
  }
  return best;
};

const scrollBy = (el, how) => run(Element, el, 'scrollBy', how);

const scroll = (args) => {
  const sign = args.page === 'up' ? -1 : args.page === 'down' ? 1 : 0;
  const asked = Number(args.dy) || 0;
  const el = mainScroller();
  const isPage = el === (ofDocument('scrollingElement') || rootElement());
  const dy = sign === 0 ? asked : sign * Math.max(Math.floor((isPage ? VIEW.innerHeight : clientHeight(el)) * 0.9), 40);
  const before = scrollTop(el);
  scrollBy(el, { top: dy, behavior: 'instant' });
  const now = scrollTop(el);
  const bottom = scrollHeight(el) - clientHeight(el) - now < 2;
  return { moved: round(now - before), of: isPage ? 'page' : describe(el).t, end: dy >= 0 ? bottom : now < 1 };
};
