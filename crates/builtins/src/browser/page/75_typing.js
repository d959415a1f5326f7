// Text into fields. The worker types; the script focuses, selects, and sets what cannot be typed.

const focus = (el, how) => run(HTMLElement, el, 'focus', how);
const tell = (el, ...types) => {
  for (const type of types) el.dispatchEvent(new Event(type, { bubbles: true, composed: true }));
};

const FORMATS = {
  date: '2026-12-31', time: '23:59', color: '#ff8800', range: 'a number', month: '2026-12', week: '2026-W52', 'datetime-local': '2026-12-31T23:59',
};

// The field itself, or the one field inside a wrapper that was numbered in its place.
const fieldOf = (el) => {
  if (isField(el)) return el;
  const inner = [...queryAll(el, 'input,textarea,[contenteditable]')].filter(isField);
  return inner.length === 1 ? inner[0] : el;
};
const isField = (el) => el instanceof HTMLTextAreaElement || (el instanceof HTMLInputElement && ['type', 'set', 'file'].includes(inputDoes(inputType(el))))
  || (el instanceof HTMLElement && editable(el));

const prepareText = (args) => {
  const el = fieldOf(elementOf(args.number));
  const entry = describe(el);
  const more = { t: entry.t };
  if (isDisabled(el)) refuse('disabled', `The field ${entry.t} is disabled.`, more);
  if (!isField(el)) refuse('not_editable', `The element ${entry.t} takes no text.`, more);
  if (attr(el, 'readonly') !== null) refuse('readonly', `The field ${entry.t} is read-only.`, more);
  if (!shownOf(el).ok) refuse('hidden', `The field ${entry.t} is not drawn now.`, more);
  if (el instanceof HTMLInputElement) {
    const does = inputDoes(inputType(el));
    if (does === 'file') refuse('file', `The field ${entry.t} takes a file, not text.`, more);
    if (does === 'set') return { do: 'set', kind: 'input', value: el.value };
  }
  scrollTo(el, { block: 'nearest', inline: 'nearest', behavior: 'instant' });
  focus(el, { preventScroll: true });
  if (focused() !== el && !holds(el, focused() || DOC)) refuse('not_editable', `The field ${entry.t} does not take the focus.`, more);
  selectIn(el);
  const kind = el instanceof HTMLTextAreaElement ? 'textarea' : el instanceof HTMLInputElement ? 'input' : 'editable';
  return { do: 'insert', kind, value: rawValue(el) };
};

const rawValue = (el) => {
  const value = el instanceof HTMLTextAreaElement || el instanceof HTMLInputElement ? el.value : plainText(el, 4000);
  return value.length > 4000 ? value.slice(0, 4000) : value;
};

// Everything in the field.
const selectIn = (el) => {
  if (el instanceof HTMLInputElement || el instanceof HTMLTextAreaElement) {
    el.select();
    return;
  }
  const selection = VIEW.getSelection();
  const range = run(Document, DOC, 'createRange');
  range.selectNodeContents(el);
  selection.removeAllRanges();
  selection.addRange(range);
};

const setField = (args) => {
  const el = fieldOf(elementOf(args.number));
  const entry = describe(el);
  if (isDisabled(el)) refuse('disabled', `The field ${entry.t} is disabled.`, { t: entry.t });
  if (!(el instanceof HTMLInputElement)) refuse('not_editable', `The element ${entry.t} has no value to set.`, { t: entry.t });
  const type = inputType(el);
  const before = el.value;
  const text = String(args.text).trim();
  focus(el, { preventScroll: true });
  el.value = text;
  const now = el.value;
  const taken = type === 'range' ? text !== '' && Number(now) === Number(text) : now.toLowerCase() === text.toLowerCase() || (now !== '' && now.startsWith(text));
  if (!taken) {
    el.value = before;
    refuse('bad_value', `The field ${entry.t} takes values such as ${FORMATS[type] || 'its type allows'}.`, { t: entry.t, format: FORMATS[type] || type });
  }
  if (now !== before) tell(el, 'input', 'change');
  return { value: now, changed: now !== before };
};

const readValue = (args) => {
  const el = fieldOf(elementOf(args.number));
  // A password is nobody's to read, not even to compare it.
  const isSecret = el instanceof HTMLInputElement && inputType(el) === 'password';
  const away = focused();
  return { ...(isSecret ? {} : { value: rawValue(el) }), t: describe(el).t, away: away !== el && !(away && holds(el, away)) };
};
