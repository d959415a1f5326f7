// Dropdowns: native selects, lists of suggestions, and those that ARIA describes.

const MOST_LISTED = 500;

const OPTION_ROLES = '[role=option],[role=menuitem],[role=menuitemradio],[role=menuitemcheckbox],[role=treeitem]';

const nativeOptions = (options) => [...options].slice(0, MOST_LISTED).map((one) => ({
  text: oneLine(one.text || attr(one, 'label') || ''), value: oneLine(one.value), selected: one.selected,
  disabled: one.disabled || matches(one, 'optgroup[disabled] option'),
}));

// The list that an ARIA dropdown owns, controls or holds; else the one open list of the page that follows it.
const popupOf = (el) => {
  for (const name of ['aria-controls', 'aria-owns', 'list']) {
    for (const id of (attr(el, name) || '').split(/\s+/).filter(Boolean)) {
      const found = byId(rootOf(el), id);
      if (found) return found;
    }
  }
  if (queryAll(el, OPTION_ROLES).length > 0) return el;
  const lists = [...queryAll(DOC, '[role=listbox],[role=menu],[role=tree]')].filter((one) => shownOf(one).ok && !holds(one, el));
  return lists.length > 0 && attr(el, 'aria-expanded') === 'true' ? nearestTo(el, lists) : null;
};

const nearestTo = (el, list) => {
  const from = boxOf(el);
  const far = (one) => {
    const box = boxOf(one);
    return Math.abs(box.left - from.left) + Math.min(Math.abs(box.top - from.bottom), Math.abs(box.bottom - from.top));
  };
  return [...list].sort((a, b) => far(a) - far(b))[0];
};

const dropdownOf = (el) => {
  if (el instanceof HTMLSelectElement) return { kind: 'select', el };
  if (el instanceof HTMLOptionElement && closest(el, 'select')) return { kind: 'select', el: closest(el, 'select') };
  if (el instanceof HTMLLabelElement && labelControl(el) instanceof HTMLSelectElement) return { kind: 'select', el: labelControl(el) };
  if (el instanceof HTMLInputElement && el.list) return { kind: 'datalist', el };
  const role = roleOf(el, localName(el));
  if (role === 'listbox' || role === 'tree') return { kind: 'listbox', el, popup: el };
  if (role === 'radiogroup' || localName(el) === 'fieldset') return { kind: 'radio', el, popup: el };
  const has = attr(el, 'aria-haspopup');
  if (role === 'combobox' || role === 'menu' || (has && has !== 'false' && has !== 'dialog')) {
    return { kind: role === 'combobox' || has === 'listbox' ? 'listbox' : 'menu', el, popup: role === 'menu' ? el : popupOf(el) };
  }
  const inner = queryAll(el, 'select,[role=combobox],[role=listbox]');
  if (inner.length === 1) return dropdownOf(inner[0]);
  return refuse('not_dropdown', `The element ${describe(el).t} is not a dropdown.`, { t: describe(el).t });
};

const RADIOS = 'input[type=radio],[role=radio]';

// Options of an ARIA list that are drawn, with their elements.
const ariaOptions = (drop) => {
  if (!drop.popup) return [];
  const found = queryAll(drop.popup, drop.kind === 'radio' ? RADIOS : OPTION_ROLES);
  return [...found].slice(0, MOST_LISTED).filter((el) => drop.kind === 'radio' || shownOf(el).ok).map((el) => {
    const entry = describe(el);
    return {
      el, text: entry.name || oneLine(plainText(el)), value: oneLine(attr(el, 'data-value') || attr(el, 'value') || ''),
      selected: entry.state.includes('selected') || entry.state.includes('checked'), disabled: entry.state.includes('disabled'),
    };
  });
};

const options = (args) => {
  const drop = dropdownOf(elementOf(args.number));
  if (drop.kind === 'select') {
    return { kind: 'select', multiple: attr(drop.el, 'multiple') !== null, options: nativeOptions(drop.el.options), open: true, open_first: false };
  }
  if (drop.kind === 'datalist') {
    return { kind: 'datalist', multiple: false, options: nativeOptions(queryAll(drop.el.list, 'option')), open: true, open_first: false };
  }
  const list = ariaOptions(drop);
  return {
    kind: drop.kind, multiple: ariaIs(drop.popup || drop.el, 'multiselectable'), open: list.length > 0, open_first: list.length === 0,
    options: list.map(({ el, ...option }) => ({ ...option, n: numberOf(el) })),
  };
};

// Exact text first, then without regard to case, then value, then the one option that starts with or holds the text.
const pick = (list, wanted) => {
  const text = fold(wanted);
  const only = (test) => {
    const found = list.filter(test);
    return found.length === 1 ? found[0] : null;
  };
  // Of several, the first that can be chosen.
  const first = (test) => list.find((one) => test(one) && !one.disabled) || list.find(test);
  return first((one) => one.text === wanted) || first((one) => fold(one.text) === text) || first((one) => one.value !== '' && one.value === wanted)
    || (text === '' ? null : only((one) => fold(one.text).startsWith(text)) || only((one) => fold(one.text).includes(text)));
};

const othersLike = (list, found) => list.filter((one) => one !== found && one.text === found.text).length;

// Texts most like the wanted one first, for the refusal.
const nearest = (texts, wanted) => {
  const words = new Set(fold(wanted).split(' '));
  const score = (text) => fold(text).split(' ').filter((word) => words.has(word)).length + (fold(text)[0] === fold(wanted)[0] ? 0.5 : 0);
  return texts.map((text) => ({ text, score: score(text) })).sort((a, b) => b.score - a.score).slice(0, 20).map(({ text }) => text);
};

const noOption = (list, wanted) => refuse('no_option', `The dropdown has no option ${quoted(oneLine(wanted))}.`, { options: nearest(list.map((one) => one.text), wanted) });

const choose = (args) => {
  const wanted = String(args.text);
  const drop = dropdownOf(elementOf(args.number));
  if (isDisabled(drop.el)) refuse('disabled', `The dropdown ${describe(drop.el).t} is disabled.`, { t: describe(drop.el).t });
  if (drop.kind === 'select') return chooseNative(drop.el, wanted);
  if (drop.kind === 'datalist') return chooseSuggestion(drop.el, wanted);
  const list = ariaOptions(drop);
  if (list.length === 0) return { open_first: true };
  const found = pick(list, wanted) || noOption(list, wanted);
  if (found.disabled) refuse('disabled', `The option ${quoted(found.text)} is disabled.`, { t: found.text });
  return { click: numberOf(found.el), chosen: found.text, others: othersLike(list, found) };
};

const chooseNative = (select, wanted) => {
  const all = [...select.options];
  const list = nativeOptions(all);
  const found = pick(list, wanted) || noOption(list, wanted);
  if (found.disabled) refuse('disabled', `The option ${quoted(found.text)} is disabled.`, { t: found.text });
  const option = all[list.indexOf(found)];
  const before = option.selected;
  focus(select, { preventScroll: true });
  option.selected = true;
  if (!before) tell(select, 'input', 'change');
  return { done: true, chosen: found.text, changed: !before, others: othersLike(list, found) };
};

const chooseSuggestion = (input, wanted) => {
  const list = nativeOptions(queryAll(input.list, 'option'));
  const found = pick(list, wanted) || noOption(list, wanted);
  const before = input.value;
  focus(input, { preventScroll: true });
  input.value = found.value || found.text;
  tell(input, 'input', 'change');
  return { done: true, chosen: found.text, changed: input.value !== before };
};
