// Tables of data: which rows and cells are shown, and in which columns they are.

const MOST_ROWS = 20000;
const MOST_COLUMNS = 1000;

const isDisplayed = (el) => {
  const style = getComputedStyle(el);
  return style.display !== 'none' && style.visibility !== 'collapse' && Number(style.opacity) > 0;
};
const shownCells = (row) => [...row.cells].filter((cell) => getComputedStyle(cell).display !== 'none');
const tableRows = (el) => [...el.rows].slice(0, MOST_ROWS).filter((row) => isDisplayed(row) && isDisplayed(parentNode(row)) && shownCells(row).length > 0);

const TABLE_PARTS = new Set(['colgroup', 'col', 'thead', 'tbody', 'tfoot', 'tr']);

// A table that only lays out the page is read as what it holds: it has no header cells, and one row, one column, or parts of a
// page in it.
const isGrid = (el, rows) => {
  const role = attr(el, 'role');
  if (rows.length === 0 || role === 'presentation' || role === 'none') return false;
  const cells = rows.slice(0, 100).flatMap((row) => [...row.cells]);
  if (el.tHead || el.caption || cells.some((cell) => localName(cell) === 'th')) return true;
  const holds = (parts) => cells.some((cell) => queryAll(cell, parts).length > 0);
  const isLine = rows.length === 1 || rows.every((row) => row.cells.length === 1);
  return !holds('table,h1,h2,h3') && !(isLine && holds('p,div,ul,ol,form,section,article'));
};

// The texts of cells in the columns where they are drawn. What spans rows is repeated if it is short.
const columns = (rows, md) => {
  const texts = [];
  let spans = [];
  let chars = 0;
  for (const [i, row] of rows.entries()) {
    if (md.budget.over || chars > md.budget.most_chars) break;
    if (i > 0 && parentNode(row) !== parentNode(rows[i - 1])) spans = [];
    const line = [];
    const place = (text, again, left) => {
      if (left > 0) spans[line.length] = { again, left };
      line.push(text);
      chars += text.length + 3;
    };
    // Cells of rows above that reach down to here.
    const carry = () => {
      for (let span = spans[line.length]; span && span.left > 0; span = spans[line.length]) {
        span.left -= 1;
        place(span.again, span.again, span.left);
      }
    };
    for (const cell of shownCells(row)) {
      carry();
      const text = md.line(() => md.element(cell));
      const left = (cell.rowSpan || rows.length) - 1;
      place(text, text.length <= NAME_CHARS ? text : '', left);
      for (let k = 1; k < cell.colSpan && line.length < MOST_COLUMNS; k += 1) place('', '', left);
    }
    const last = spans.findLastIndex((span) => span && span.left > 0);
    while (line.length <= last) {
      carry();
      if (line.length <= last) place('', '', 0);
    }
    if (line.some(Boolean)) texts.push(line);
  }
  return texts;
};
