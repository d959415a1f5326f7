// Role of an element: the one it is given, or the one HTML gives it.

const ROLES = {
  a: 'link', area: 'link', article: 'article', aside: 'complementary', blockquote: 'blockquote', button: 'button', canvas: 'canvas',
  datalist: 'listbox', dd: 'definition', details: 'group', dialog: 'dialog', dt: 'term', fieldset: 'group', figure: 'figure',
  footer: 'contentinfo', form: 'form', h1: 'heading', h2: 'heading', h3: 'heading', h4: 'heading', h5: 'heading',
  h6: 'heading', header: 'banner', hr: 'separator', iframe: 'iframe', frame: 'iframe', img: 'img', label: 'label', li: 'listitem', main: 'main',
  menu: 'list', meter: 'meter', nav: 'navigation', ol: 'list', optgroup: 'group', option: 'option', output: 'status',
  p: 'paragraph', progress: 'progressbar', search: 'search', section: 'region', select: 'combobox', summary: 'button',
  table: 'table', tbody: 'rowgroup', td: 'cell', textarea: 'textbox', tfoot: 'rowgroup', th: 'columnheader',
  thead: 'rowgroup', tr: 'row', ul: 'list', video: 'video', audio: 'audio', embed: 'embed', object: 'object',
};
const INPUT_ROLES = {
  button: 'button', checkbox: 'checkbox', color: 'colorpicker', date: 'date', 'datetime-local': 'datetime', file: 'file', image: 'button', month: 'month',
  number: 'spinbutton', radio: 'radio', range: 'slider', reset: 'button', search: 'searchbox', submit: 'button', time: 'time', week: 'week',
};
const SET_TYPES = new Set(['date', 'time', 'color', 'range', 'month', 'week', 'datetime-local']);
const CLICK_TYPES = new Set(['button', 'submit', 'reset', 'image']);
const CLICK_ROLES = new Set('button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio option radio scrollbar searchbox slider spinbutton switch tab textbox treeitem'.split(' '));
const CHECK_ROLES = new Set(['checkbox', 'radio', 'switch', 'menuitemcheckbox', 'menuitemradio']);
// Roles that get a line of their own in the tree, and those whose name is their content.
const SHOWN_ROLES = new Set('article alert alertdialog banner blockquote caption cell columnheader complementary contentinfo definition dialog figure form grid group heading img list listitem log main menu menubar meter navigation progressbar radiogroup region row rowheader search separator status tab tablist tabpanel table term toolbar tooltip tree treegrid'.split(' '));
const NAMED_ONLY = new Set(['region', 'form', 'group', 'figure', 'article', 'contentinfo', 'banner', 'img', 'status']);
const CONTENT_ROLES = new Set('button caption cell checkbox columnheader definition gridcell heading label link listitem menuitem menuitemcheckbox menuitemradio option radio rowheader switch tab term tooltip treeitem'.split(' '));
const KNOWN_ROLES = new Set([...SHOWN_ROLES, ...CLICK_ROLES, 'none', 'presentation', 'generic', 'application', 'document', 'feed', 'marquee', 'math', 'note', 'paragraph', 'rowgroup', 'timer']);

const inputType = (input) => input.type;

const roleOf = (el, tag) => {
  const given = attr(el, 'role');
  if (given) {
    for (const word of given.trim().toLowerCase().split(/\s+/)) {
      if (word === 'presentation' || word === 'none') return 'generic';
      if (KNOWN_ROLES.has(word)) return word;
    }
  }
  if (tag === 'input') return INPUT_ROLES[inputType(el)] || 'textbox';
  if ((tag === 'a' || tag === 'area') && attr(el, 'href') === null) return 'generic';
  if (tag === 'select' && (attr(el, 'multiple') !== null || Number(attr(el, 'size')) > 1)) return 'listbox';
  if (tag === 'th' && attr(el, 'scope') === 'row') return 'rowheader';
  return (namespaceOf(el) === HTML && Object.hasOwn(ROLES, tag) && ROLES[tag]) || 'generic';
};

const heard = new WeakMap(); // element -> the types of events it listens to
// Names that libraries give to what they let a person move.
const MOVED = /(?:^|[\s-])(?:sortable-handle|draggable|drag-handle|resizable-handle)(?:$|[\s-])/;
const isMoved = (el) => {
  const classes = attr(el, 'class');
  return classes !== null && classes.length < 1000 && MOVED.test(classes);
};

// Handlers of the events in the worker's `USED_BY`.
const HANDLERS = [
  'onclick', 'onmousedown', 'onmouseup', 'onpointerdown', 'onpointerup', 'ondblclick', 'ontouchstart', 'onmouseover', 'onmouseenter', 'onmousemove',
  'oncontextmenu', 'ondragstart', 'onkeydown',
];

const editable = (el) => (isForm(el) ? clean(HTMLElement, el, 'isContentEditable') : el.isContentEditable);
const editHost = (el) => {
  if (!(el instanceof HTMLElement) || !editable(el)) return false;
  const parent = elementParent(el);
  return !(parent instanceof HTMLElement && editable(parent));
};

// Whether its attributes let a person use it.
const isMadeToUse = (el) => {
  // Most elements have none, and looking for each takes time.
  if (!hasAttributes(el)) return false;
  if (attr(el, 'draggable') === 'true' || isMoved(el)) return true;
  const tab = attr(el, 'tabindex');
  return (tab !== null && Number(tab) >= 0) || HANDLERS.some((name) => attr(el, name) !== null);
};

// What a person can do with the element, or null. `pointer` says whether the cursor turns into a hand here and not
// yet around it.
const doesOf = (el, tag, role, pointer) => {
  switch (tag) {
    case 'button': case 'summary': return 'click';
    case 'textarea': return 'type';
    case 'select': return 'choose';
    case 'iframe': case 'frame': return 'frame';
    case 'canvas': return 'graphic';
    case 'html': return null;
    case 'body': return editHost(el) ? 'type' : null;
    case 'input': return inputDoes(inputType(el));
    default:
  }
  if (role === 'link' && tag === 'a') return 'click';
  const edits = attr(el, 'contenteditable');
  if (edits !== null && edits !== 'false' && editHost(el)) return 'type';
  if (CHECK_ROLES.has(role)) return 'check';
  if (CLICK_ROLES.has(role)) return 'click';
  if (heard.has(el) || pointer || isMadeToUse(el)) return 'click';
  if (tag === 'label') return standsFor(el) ? 'click' : null;
  if ((tag === 'video' || tag === 'audio') && attr(el, 'controls') !== null) return 'click';
  return null;
};

// A label is pressed in place of a control that is not drawn; else the control itself is listed.
const standsFor = (label) => {
  const control = labelControl(label);
  if (!control) return false;
  const style = getComputedStyle(control);
  const box = boxOf(control);
  return style.visibility !== 'visible' || Number(style.opacity) === 0 || box.width < 2 || box.height < 2;
};

const inputDoes = (type) => {
  if (type === 'hidden') return null;
  if (type === 'checkbox' || type === 'radio') return 'check';
  if (type === 'file') return 'file';
  if (CLICK_TYPES.has(type)) return 'click';
  return SET_TYPES.has(type) ? 'set' : 'type';
};
