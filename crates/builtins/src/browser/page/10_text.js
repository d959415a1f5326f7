// Text of the page is hostile: one line, no character that moves the cursor, changes direction or is not seen.

const NAME_CHARS = 120;
const VALUE_CHARS = 200;
const LINE_CHARS = 300;

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;
// Joiners and variation selectors belong to emoji and to several scripts; after a character they are kept.
const JOINED = /(?<=[\p{L}\p{M}\p{Extended_Pictographic}])[\u200c\u200d\ufe0e\ufe0f]/gu;

const collapse = (text) => text.replace(/[\s\u00a0]+/g, ' ');

const escapeUnsafe = (text) => {
  if (!UNSAFE.test(text)) return text;
  UNSAFE.lastIndex = 0;
  const kept = new Set();
  for (const found of text.matchAll(JOINED)) kept.add(found.index);
  return text.replace(UNSAFE, (c, at) => (kept.has(at) ? c : `\\u{${c.codePointAt(0).toString(16)}}`));
};

const cut = (text, most) => {
  if (text.length <= most) return text;
  const code = text.charCodeAt(most - 2);
  const end = code >= 0xd800 && code <= 0xdbff ? most - 2 : most - 1;
  return `${text.slice(0, end)}\u2026`;
};

// One safe line of at most `most` characters. The cap comes before the escape as well, so that a text of a megabyte
// costs no more than a short one.
const oneLine = (text, most = NAME_CHARS) => {
  if (!text) return '';
  const capped = text.length > most * 8 ? text.slice(0, most * 8) : text;
  return cut(escapeUnsafe(collapse(capped).trim()), most);
};

// Several safe lines: line feeds stay, everything else as in `oneLine`.
const manyLines = (text) => text.split('\n').map((line) => escapeUnsafe(line.replace(/\t/g, '    '))).join('\n');

const quoted = (text) => `"${text.replace(/"/g, '\\"')}"`;

const fold = (text) => collapse(text).trim().toLowerCase();
