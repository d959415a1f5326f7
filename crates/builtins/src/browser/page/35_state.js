// Value and state of an element, as attributes and properties say.

const isDisabled = (el) => matches(el, ':disabled') || closestDisabled(el);

// aria-disabled counts for everything inside it.
const closestDisabled = (el) => {
  const holder = closest(el, '[aria-disabled]');
  return holder !== null && attr(holder, 'aria-disabled') === 'true';
};

const ariaIs = (el, name) => attr(el, `aria-${name}`) === 'true';

const valueOf = (el, tag, does) => {
  if (tag === 'input') {
    const type = inputType(el);
    if (CLICK_TYPES.has(type) || type === 'checkbox' || type === 'radio' || type === 'hidden') return null;
    const value = el.value;
    return type === 'password' ? '\u2022'.repeat(Math.min(value.length, 32)) : oneLine(value, VALUE_CHARS);
  }
  if (tag === 'textarea') return oneLine(el.value, VALUE_CHARS);
  if (tag === 'select') return oneLine([...el.selectedOptions].slice(0, 20).map((one) => one.text).join(', '), VALUE_CHARS);
  if (tag === 'progress' || tag === 'meter') return attr(el, 'value');
  const said = attr(el, 'aria-valuetext') || attr(el, 'aria-valuenow');
  if (said !== null) return oneLine(said, VALUE_CHARS);
  return does === 'type' ? oneLine(plainText(el, VALUE_CHARS * 4), VALUE_CHARS) : null;
};

const checkState = (el, tag, role) => {
  if (tag === 'label') return standsFor(el) ? checkState(labelControl(el), localName(labelControl(el)), '') : null;
  if (tag === 'input') {
    const type = inputType(el);
    if (type === 'checkbox' && el.indeterminate) return 'mixed';
    if (type === 'checkbox' || type === 'radio') return el.checked ? 'checked' : 'unchecked';
  }
  const said = attr(el, 'aria-checked');
  if (said === 'mixed') return 'mixed';
  if (CHECK_ROLES.has(role) && tag !== 'input') return said === 'true' ? 'checked' : 'unchecked';
  return null;
};

const stateOf = (el, tag, role, active) => {
  const state = [];
  const check = checkState(el, tag, role);
  if (check) state.push(check);
  if (isDisabled(el) || (tag === 'label' && standsFor(el) && isDisabled(labelControl(el)))) state.push('disabled');
  if (attr(el, 'readonly') !== null || ariaIs(el, 'readonly')) state.push('readonly');
  if (attr(el, 'required') !== null || ariaIs(el, 'required')) state.push('required');
  const expanded = tag === 'summary' ? openDetails(el) : attr(el, 'aria-expanded');
  if (expanded === 'true') state.push('expanded');
  if (expanded === 'false') state.push('collapsed');
  if (ariaIs(el, 'selected') || (tag === 'option' && el.selected)) state.push('selected');
  if (ariaIs(el, 'pressed')) state.push('pressed');
  if (el === active) state.push('focused');
  if (ariaIs(el, 'invalid')) state.push('invalid');
  if (tag === 'textarea' || ariaIs(el, 'multiline')) state.push('multiline');
  if (attr(el, 'multiple') !== null || ariaIs(el, 'multiselectable')) state.push('multiple');
  if (attr(el, 'draggable') === 'true') state.push('draggable');
  const current = attr(el, 'aria-current');
  if (current && current !== 'false') state.push('current');
  return state;
};

const openDetails = (summary) => {
  const parent = parentNode(summary);
  if (!(parent instanceof HTMLDetailsElement)) return attr(summary, 'aria-expanded');
  return attr(parent, 'open') === null ? 'false' : 'true';
};
