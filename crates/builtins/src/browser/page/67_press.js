// Where a press lands is known when it comes: what is under the pointer may have changed since it was aimed. A press that a
// document does not expect is kept from its page, with the click that it would make.

const OF_PRESS = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'auxclick'];
// A press comes within this time, in milliseconds. A later one is another call's.
const PRESS_MS = 5000;
let expected = null;

// `number`: the element that the press is for; none: no element of this document, unless it is for `any`.
const expectPress = (args) => {
  const el = args.number > 0 ? elementOf(args.number) : null;
  expected = { el, any: args.any === true, until: performance.now() + PRESS_MS, taken: null, by: '', by_n: null };
  for (const type of OF_PRESS) VIEW.addEventListener(type, takePress, { capture: true });
  return {};
};

const takePress = (event) => {
  if (expected === null || !event.isTrusted || performance.now() > expected.until) return;
  if (expected.taken === null && (event.type === 'pointerdown' || event.type === 'mousedown')) {
    const hit = hitAt(event.clientX, event.clientY);
    expected.taken = expected.any || (expected.el !== null && hit !== null && actsOn(expected.el, hit));
    if (hit !== null) ({ t: expected.by, n: expected.by_n } = briefOf(listedAround(hit)));
  }
  if (expected.taken !== false) return;
  event.preventDefault();
  event.stopImmediatePropagation();
};

// Whether the press came and was for this document: null if none came.
const pressed = () => {
  const { taken = null, by = '', by_n = null } = expected ?? {};
  expected = null;
  return { taken, by, by_n };
};
