// The page as Markdown blocks in reading order, each with the place it was found at. One walk reads what a person sees.

const escapeInline = (text) => text.replace(/[\\`*_[\]<>|]|~~/g, '\\$&');

class Markdown {
  constructor(budget, links) {
    this.budget = budget;
    this.links = links;
    this.blocks = [];
    this.inline = '';
    // What the next block begins with, once, and what its other lines and the blocks after it begin with.
    this.lead = null;
    this.indent = '';
    // How the next item of a list begins.
    this.item = '- ';
    this.headings = [];
    this.at = null;
    this.depth = 0;
    this.shown = true;
    // Within what becomes one line, and within text whose white space matters.
    this.inLine = false;
    this.isRaw = false;
    // Frames in what becomes one line come after it.
    this.later = [];
  }

  // Ends the block being written.
  flush() {
    const text = this.inline.replace(/[ \t]*\n[ \t]*/g, '\n').replace(/[ \t]{2,}/g, ' ').trim();
    this.inline = '';
    if (!text) return;
    const lead = this.lead ?? this.indent;
    this.lead = null;
    this.block(text.replace(/\n/g, `\n${this.indent}`), this.at, { lead, isText: true });
  }

  block(text, el, more = {}) {
    const block = { el, text, headings: this.headings.filter(Boolean), lead: '', ...more };
    // The line that this becomes a part of is made safe and counted as a whole.
    if (!this.inLine) {
      block.text = manyLines(text);
      const left = this.budget.most_chars - this.budget.chars;
      if (!this.budget.spend('chars', block.lead.length + block.text.length)) {
        if (left <= 40) return;
        block.text = cut(block.text, left);
      }
    }
    this.blocks.push(block);
    if (!this.inLine) this.blocks.push(...this.later.splice(0));
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
    if (!this.shown) return;
    const text = data.slice(0, 200000);
    this.inline += this.isRaw ? text : escapeInline(collapse(text));
  }

  element(el) {
    const tag = localName(el);
    if (UNREAD.has(tag) || tag === 'svg') return;
    const style = getComputedStyle(el);
    if (style.display === 'none' || this.isUnseen(el, tag, style)) return;
    const outer = { shown: this.shown, at: this.at };
    this.shown = style.visibility === 'visible' && style.fontSize !== '0px';
    const isBlock = !/^(?:inline|contents|ruby)/.test(style.display);
    const apart = /^(?:inline-|ruby-text)/.test(style.display) ? ' ' : '';
    const write = namespaceOf(el) === HTML && WRITERS[tag];
    if (this.isRaw) {
      this.raw(el, tag, isBlock);
    } else {
      if (isBlock) this.open(el);
      this.inline += apart;
      if (write && (this.shown || firstChild(el) !== null)) write(this, el, tag);
      else if (!write) this.children(el);
      this.inline += apart;
      if (isBlock) this.flush();
    }
    Object.assign(this, outer);
  }

  // Whether nothing in it is painted. Content that may appear on scrolling is noted.
  isUnseen(el, tag, style) {
    if (style.contentVisibility === 'hidden') return true;
    if (Number(style.opacity) > 0) return clips(style, tag) && empty(boxOf(el));
    if (boxOf(el).top >= VIEW.innerHeight) this.budget.note('opacity', 'parts further down that are transparent now are left out');
    return true;
  }

  open(el) {
    this.flush();
    this.at = el;
  }

  children(el) {
    const tag = localName(el);
    if (REPLACED.has(tag)) return;
    const isFolded = tag === 'details' && attr(el, 'open') === null;
    eachChild(el, (child) => (isFolded && localName(child) !== 'summary') || this.node(child));
  }

  raw(el, tag, isBlock) {
    const apart = () => {
      if (tag === 'br' || (isBlock && this.inline && !this.inline.endsWith('\n'))) this.inline += '\n';
    };
    if (tag !== 'br') apart();
    this.children(el);
    apart();
  }

  // The text of an element with its own white space, apart from the block being written.
  rawText(el) {
    const outer = this.inline;
    this.inline = '';
    this.isRaw = true;
    this.children(el);
    this.isRaw = false;
    const text = this.inline.slice(0, this.budget.most_chars);
    this.inline = outer;
    return text;
  }

  // What `read` writes, as one line, blocks in it included. The block being written stays as it is.
  line(read) {
    const { inline, blocks, lead, indent, at, inLine } = this;
    Object.assign(this, { inline: '', blocks: [], lead: null, indent: '', inLine: true });
    read();
    this.flush();
    const made = this.blocks;
    Object.assign(this, { inline, blocks, lead, indent, at, inLine });
    this.later.push(...made.filter((block) => block.n));
    return collapse(made.filter((block) => !block.n).map((block) => block.lead + block.text).join(' ')).trim();
  }

  // Writes the content of an element with marks around its text, or around that of its heading or first block if it holds blocks.
  wrapped(el, wrap) {
    const { inline, blocks, lead, at } = this;
    const isFirst = inline.trim() === '';
    Object.assign(this, { inline: '', blocks: [], lead: isFirst ? lead : null });
    this.children(el);
    if (this.blocks.length > 0) this.flush();
    const made = this.blocks;
    const text = collapse(this.inline);
    Object.assign(this, { inline, blocks, at, lead: made.length === 0 || !isFirst ? lead : this.lead });
    if (made.length === 0) {
      const inner = text.trim();
      this.inline += inner ? text.replace(inner, () => wrap(inner)) : text;
      return;
    }
    this.flush();
    const first = made.find((block) => block.heading) || made.find((block) => block.isText);
    if (first) {
      const whole = wrap(first.text);
      if (!this.inLine) this.budget.spend('chars', whole.length - first.text.length);
      first.text = whole;
    }
    for (const block of made) this.blocks.push(block);
  }

  // Blocks that begin with a sign, and are indented by `more` after that.
  withLead(el, sign, more) {
    this.open(el);
    const { indent, lead } = this;
    this.lead = (lead ?? indent) + sign;
    this.indent = indent + more;
    this.children(el);
    this.flush();
    this.indent = indent;
    // What is around it still begins if nothing was written.
    this.lead = this.lead && lead;
  }

  table(el) {
    const rows = tableRows(el);
    if (this.inLine || !isGrid(el, rows)) {
      this.children(el);
      return;
    }
    eachChild(el, (child) => TABLE_PARTS.has(localName(child)) || this.node(child));
    this.flush();
    const texts = columns(rows, this);
    if (texts.length === 0) return;
    const width = Math.max(...texts.map((row) => row.length));
    const [head, ...rest] = texts.map((row) => `| ${row.join(' | ')} |`);
    const missing = '  |'.repeat(width - texts[0].length);
    this.block([head + missing, `|${' --- |'.repeat(width)}`, ...rest].join('\n'), el);
  }

  list(el, tag) {
    const isNumbered = tag === 'ol';
    const step = isNumbered && el.reversed ? -1 : 1;
    const start = Number.parseInt(attr(el, 'start'), 10);
    let count = Number.isNaN(start) ? (step < 0 ? childElementCount(el) : 1) : start;
    eachChild(el, (child) => {
      if (nodeType(child) !== 1 || localName(child) !== 'li') return this.node(child);
      if (!isDisplayed(child)) return true;
      const given = Number.parseInt(attr(child, 'value'), 10);
      if (!Number.isNaN(given)) count = given;
      this.item = isNumbered ? `${count}. ` : '- ';
      count += step;
      const goesOn = this.node(child);
      // An item that is not drawn did not use it.
      this.item = '- ';
      return goesOn;
    });
  }
}

const heading = (md, el, tag) => {
  if (md.inLine) {
    md.children(el);
    return;
  }
  md.flush();
  const level = Number(tag[1]);
  const text = md.line(() => md.children(el));
  if (!text) return;
  md.headings.length = Math.min(md.headings.length, level - 1);
  md.headings[level - 1] = text;
  md.block(text, el, { heading: true, lead: `${'#'.repeat(level)} `, isText: true });
};
const preformatted = (md, el) => {
  md.flush();
  const code = md.rawText(el).replace(/\n+$/, '').replace(/^\n/, '');
  const fence = code.includes('```') ? '````' : '```';
  if (md.inLine) md.inline = codeMark(code);
  else if (code.trim()) md.block(`${fence}\n${code}\n${fence}`, el);
};
const framed = (md, el) => {
  if (!md.shown) return;
  md.flush();
  md.block(`[frame ${oneLine(attr(el, 'title') || attr(el, 'src') || '')}]`, el, { n: numberOf(el) });
};
const fieldText = (md, el, tag) => {
  if (!md.shown) return;
  const value = tag === 'textarea' ? collapse(el.value.slice(0, md.budget.most_chars)) : valueOf(el, tag, 'type');
  if (value && inputVisible(el, tag)) md.inline += ` ${escapeInline(value)} `;
};
const inputVisible = (el, tag) => tag !== 'input' || inputType(el) !== 'hidden';
const marked = (sign) => (md, el) => md.wrapped(el, (text) => `${sign}${text}${sign}`);
const codeMark = (code) => (code.trim() ? `\`${collapse(code).trim().replace(/`/g, "'")}\`` : '');

// Elements whose children are not drawn: they stand in where the browser can't show the element.
const REPLACED = new Set(['audio', 'canvas', 'meter', 'object', 'progress', 'video']);
const WRITERS = {
  h1: heading, h2: heading, h3: heading, h4: heading, h5: heading, h6: heading, pre: preformatted,
  blockquote: (md, el) => md.withLead(el, '> ', '> '), dd: (md, el) => md.withLead(el, ': ', '  '),
  li: (md, el) => { const { item } = md; md.item = '- '; md.withLead(el, item, ' '.repeat(item.length)); },
  ul: (md, el, tag) => md.list(el, tag), menu: (md, el, tag) => md.list(el, tag), ol: (md, el, tag) => md.list(el, tag),
  table: (md, el) => md.table(el), iframe: framed, frame: framed, hr: (md, el) => { md.flush(); if (!md.inLine) md.block('---', el); },
  a: (md, el) => {
    const href = attr(el, 'href');
    const isLink = md.links && href && !/^\s*javascript:/i.test(href);
    md.wrapped(el, (text) => (isLink ? `[${text}](${linkTarget(el)})` : text));
  },
  img: (md, el) => {
    const alt = attr(el, 'alt');
    if (alt) md.inline += md.links ? `![${escapeInline(oneLine(alt))}](${linkTarget(el)})` : escapeInline(oneLine(alt));
  },
  br: (md) => { md.inline += '\n'; },
  strong: marked('**'), b: marked('**'), em: marked('*'), i: marked('*'), del: marked('~~'), s: marked('~~'), sup: marked('^'), sub: marked('~'),
  code: (md, el) => { md.inline += codeMark(md.rawText(el).slice(0, 2000)); },
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
  return md.blocks.map((block) => ({ ...block, text: block.lead + block.text }));
};
