// Numbers of elements. A number is given once, stays with its element while the document lives, and is never reused.

const MOST_REMEMBERED = 100000;
const numbers = new WeakMap(); // element -> number
const remembered = new Map(); // number -> {ref, role, name, tag, t, marks}
let lastNumber = 0;

const numberOf = (el) => {
  let number = numbers.get(el);
  if (number === undefined) {
    lastNumber += 1;
    number = lastNumber;
    numbers.set(el, number);
    remembered.set(number, { ref: new WeakRef(el), role: '', name: '', tag: localName(el), t: '' });
    if (remembered.size > MOST_REMEMBERED) remembered.delete(remembered.keys().next().value);
  }
  return number;
};

const remember = (entry) => {
  const memory = remembered.get(entry.n);
  if (!memory) return;
  memory.role = entry.role;
  memory.name = entry.name;
  memory.t = entry.t;
};

// The element of a number, still in the document, or a refusal that says what resembles it now.
const elementOf = (number) => {
  const memory = remembered.get(number);
  if (!memory) refuse('unknown_number', 'No element of this page has that number; list the page again.');
  const el = memory.ref.deref();
  if (!el || !isConnected(el)) {
    refuse('stale', `The element ${memory.t || memory.tag} is no longer on the page; use one that resembles it, or list the page again.`, {
      was: memory.t, resembles: resembling(memory),
    });
  }
  return el;
};

const likeness = (memory, entry) => {
  let score = 0;
  if (entry.name && entry.name === memory.name) score += 4;
  else if (memory.name && entry.name && fold(entry.name).includes(fold(memory.name).slice(0, 40))) score += 2;
  if (entry.role === memory.role) score += 2;
  if (entry.tag === memory.tag) score += 1;
  return score;
};

// At most three elements of the page that are most like what was remembered.
const resembling = (memory) => {
  const { elements } = listing({ budget: { ms: 150 } });
  return elements
    .map((entry) => ({ entry, score: likeness(memory, entry) }))
    .filter(({ score }) => score >= 4)
    .sort((a, b) => b.score - a.score)
    .slice(0, 3)
    .map(({ entry }) => ({ n: entry.n, t: entry.t }));
};
