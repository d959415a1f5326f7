// The page as Markdown blocks in reading order, each with the place it was found at.

const escapeInline = (text) => text.replace(/[\\`*_[\]<>|]/g, '\\$&');
const HEADINGS = new Set(['h1', 'h2', 'h3', 'h4', 'h5', 'h6']);
const MOST_CELLS = 20000;

class Markdown {
  constructor(budget, links) {
    this.budget = budget;
    this.links = links;
    this.blocks = [];
    this.inline = '';
    this.prefix = '';
    this.headings = [];
    this.at = null;
    this.depth = 0;
  }

  // Ends the block being written.
  flush() {
    const text = this.inline.replace(/[ \t]*\n[ \t]*/g, '\n').replace(/[ \t]{2,}/g, ' ').trim();
    this.inline = '';
    if (text) this.block(this.prefix + text, this.at);
  }

  block(text, el, more = {}) {
    const safe = manyLines(text);
    const left = this.budget.most_chars - this.budget.chars;
    if (!this.budget.spend('chars', safe.length)) {
      if (left > 40) this.blocks.push(this.placed(cut(safe, left), el, more));
      return;
    }
    this.blocks.push(this.placed(safe, el, more));
  }

  placed(text, el, more) {
    const headings = this.headings.filter(Boolean);
    return { el, text, headings: headings.map((one) => one), ...more };
  }

  node(node) {
    if (!this.budget.node()) return false;
    if (this.depth > MOST_DEPTH) return this.budget.tooDeep();
    const type = nodeType(node);
    this.depth += 1;
    if (type === 3) this.text(node.data);
    else if (type === 1) this.element(node);
    this.depth -= 1;
    return !this.budget.over;
  }

  text(data) {
    this.inline += escapeInline(collapse(data.slice(0, 200000)));
  }

  element(el) {
    const tag = localName(el);
    if (UNREAD.has(tag) || tag === 'svg') return;
    const style = getComputedStyle(el);
    if (style.display === 'none') return;
    if (style.visibility !== 'visible' && firstChild(el) === null) return;
    const write = BLOCK_WRITERS[tag];
    if (write && namespaceOf(el) === HTML) {
      write(this, el, tag);
      return;
    }
    const inline = INLINE_WRITERS[tag];
    if (inline) {
      inline(this, el, tag);
      return;
    }
    const block = !style.display.startsWith('inline') && style.display !== 'contents';
    const apart = style.display.startsWith('inline-') ? ' ' : '';
    if (block) this.open(el);
    this.inline += apart;
    this.children(el);
    this.inline += apart;
    if (block) this.flush();
  }

  open(el) {
    this.flush();
    this.at = el;
  }

  children(el) {
    eachChild(el, (child) => this.node(child));
  }

  // What the element's inline content reads, apart from the block being written.
  apart(el) {
    const outer = this.inline;
    this.inline = '';
    this.children(el);
    const text = collapse(this.inline).trim();
    this.inline = outer;
    return text;
  }

  table(el) {
    this.flush();
    const rows = tableRows(el);
    if (rows.length === 0 || !isGrid(rows)) {
      this.children(el);
      this.flush();
      return;
    }
    const sub = new Markdown(this.budget, this.links);
    const texts = rows.map((row) => row.map((cell) => sub.apart(cell)));
    const width = Math.max(...texts.map((row) => row.length));
    const line = (row) => `| ${Array.from({ length: width }, (_, i) => row[i] ?? '').join(' | ')} |`;
    const [head, ...rest] = texts;
    this.block([line(head), `|${' --- |'.repeat(width)}`, ...rest.map(line)].join('\n'), el, { rows: true });
  }

  list(el, tag) {
    this.flush();
    const outer = this.prefix;
    let count = Number(attr(el, 'start')) || 1;
    eachChild(el, (child) => {
      if (nodeType(child) === 1 && localName(child) === 'li') {
        this.flush();
        this.at = child;
        this.prefix = `${outer.replace(/\S/g, ' ')}${tag === 'ol' ? `${count}. ` : '- '}`;
        count += 1;
        this.node(child);
        this.flush();
        this.prefix = outer;
        return !this.budget.over;
      }
      return this.node(child);
    });
    this.flush();
    this.prefix = outer;
  }
}

const tableRows = (el) => [...el.rows].slice(0, MOST_CELLS).map((row) => [...row.cells]).filter((row) => row.length > 0);
// A table that only lays out the page holds blocks; it is read as what it holds.
const isGrid = (rows) => rows.every((row) => row.every((cell) => queryAll(cell, 'table,h1,h2,h3,ul,ol,form').length === 0));

const heading = (md, el, tag) => {
  md.flush();
  const level = Number(tag[1]);
  const text = md.apart(el);
  if (!text) return;
  md.headings.length = Math.min(md.headings.length, level - 1);
  md.headings[level - 1] = text;
  md.block(`${'#'.repeat(level)} ${text}`, el, { heading: true });
};
const preformatted = (md, el) => {
  md.flush();
  const code = textContent(el).replace(/\n+$/, '').slice(0, md.budget.most_chars);
  const fence = code.includes('```') ? '````' : '```';
  if (code.trim()) md.block(`${fence}\n${code}\n${fence}`, el);
};
const quote = (md, el) => {
  md.open(el);
  const outer = md.prefix;
  md.prefix = `${outer}> `;
  md.children(el);
  md.flush();
  md.prefix = outer;
};
const framed = (md, el) => {
  md.flush();
  md.block(`[frame ${oneLine(attr(el, 'title') || attr(el, 'src') || '')}]`, el, { n: numberOf(el) });
};
const fieldText = (md, el, tag) => {
  const value = tag === 'textarea' ? collapse(el.value.slice(0, md.budget.most_chars)) : valueOf(el, tag, 'type');
  if (value && inputVisible(el, tag)) md.inline += ` ${escapeInline(value)} `;
};
const inputVisible = (el, tag) => tag !== 'input' || inputType(el) !== 'hidden';
const marked = (sign) => (md, el) => {
  const text = md.apart(el);
  if (text) md.inline += `${sign}${text}${sign}`;
};

const BLOCK_WRITERS = {
  h1: heading, h2: heading, h3: heading, h4: heading, h5: heading, h6: heading, pre: preformatted, blockquote: quote,
  ul: (md, el, tag) => md.list(el, tag), ol: (md, el, tag) => md.list(el, tag), table: (md, el) => md.table(el),
  iframe: framed, frame: framed, hr: (md, el) => { md.flush(); md.block('---', el); },
};
const INLINE_WRITERS = {
  a: (md, el) => {
    const text = md.apart(el);
    const href = attr(el, 'href');
    if (md.links && href && text && !/^\s*javascript:/i.test(href)) md.inline += `[${text}](${linkTarget(el)})`;
    else md.inline += text;
  },
  img: (md, el) => {
    const alt = attr(el, 'alt');
    if (alt) md.inline += md.links ? `![${escapeInline(oneLine(alt))}](${linkTarget(el)})` : escapeInline(oneLine(alt));
  },
  br: (md) => { md.inline += '\n'; },
  strong: marked('**'), b: marked('**'), em: marked('*'), i: marked('*'),
  code: (md, el) => { const text = collapse(textContent(el).slice(0, 2000)); if (text) md.inline += `\`${text.replace(/`/g, "'")}\``; },
  input: fieldText, textarea: fieldText, select: fieldText,
};

// Addresses without spaces or brackets that would end the link, `data:` ones left out.
const linkTarget = (el) => {
  const raw = attr(el, 'href') ?? attr(el, 'src') ?? '';
  if (raw.startsWith('data:')) return 'data:';
  try {
    return oneLine(new URL(raw, clean(Node, DOC, 'baseURI')).href, 500).replace(/[()\s<>]/g, encodeURIComponent);
  } catch (error) {
    return '';
  }
};

const markdownOf = (root, budget, links) => {
  const md = new Markdown(budget, links);
  md.at = root;
  md.node(root);
  md.flush();
  return md.blocks;
};
