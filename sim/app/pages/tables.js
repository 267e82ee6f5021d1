// Text, elements and tables that sort: what pages of results (page.js) and the pages of `rehearse view` (view.js) have in common.
// Names come from users: they reach the page as text nodes, or through escaped() into tooltips, which are HTML.
'use strict';

const kMostRows = 40;  // of a table before the reader asks for more

// ---- Text ----

const escaped = text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const shortened = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;

/// Four digits, with a prefix where that is shorter: 10.58 k, 0.0123, 1.2e-7.
function number(value) {
  if (value === null || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  for (const [least, unit, prefix] of [[1e12, 1e12, ' T'], [1e9, 1e9, ' G'], [1e6, 1e6, ' M'], [1e4, 1e3, ' k']])
    if (size >= least && size < 1e15) return String(+(value / unit).toPrecision(4)) + prefix;
  return String(+value.toPrecision(4));
}
const percent = share => `${+(share * 100).toPrecision(3)} %`;
const withUnit = (value, unit) => number(value) + (unit ? ` ${unit}` : '');

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- Tables ----

const kNumber = /^[<>=~±+\-−\s]*\d[\d.,]*(e[+-]?\d+)?(?=$|[ %])/;
const textOf = cell => cell.text ?? cell;
const valueOf = cell => cell.value ?? parseFloat(textOf(cell).replace(/^[<>=~±+*\s]+/, '').replace('−', '-'));

/// Rows of cells: a text, or {text, value to sort by, node that stands for the text}. A click on a heading sorts by it, which `order`
/// remembers for the next table.
function table(header, rows, label, csv, canSort = true, order = {}) {
  const texts = rows.map(row => row.map(textOf));
  const isNumber = header.map((_, i) => texts.some(row => row[i]) && texts.every(row => !row[i] || row[i] === '-' || (row[i].length <= 40 && kNumber.test(row[i]))));
  const body = element('tbody');
  let shown = rows, most = kMostRows;
  const more = element('button', {class: 'more', type: 'button'});
  function fill() {
    body.replaceChildren(...shown.slice(0, most).map(row => element('tr', {}, ...row.map((cell, i) =>
      element('td', isNumber[i] ? {class: 'number'} : textOf(cell).length > 40 ? {class: 'text'} : {}, cell.node ?? textOf(cell))))));
    more.hidden = shown.length <= most;
    more.textContent = `Show all ${shown.length} rows`;
  }
  more.addEventListener('click', () => { most = Infinity; fill(); });
  const headings = header.map((name, i) => {
    const button = element('button', {type: 'button'}, name || 'name');
    const heading = element('th', {scope: 'col', ...(isNumber[i] ? {class: 'number'} : {})}, button);
    button.addEventListener('click', () => {
      const isDescending = heading.getAttribute('aria-sort') === (isNumber[i] ? 'none' : 'ascending') || (isNumber[i] && !heading.hasAttribute('aria-sort'));
      Object.assign(order, {column: i, isDescending});
      sort();
    });
    return canSort && rows.length > 1 ? heading : element('th', {scope: 'col', ...(isNumber[i] ? {class: 'number'} : {})}, name);
  });
  function sort() {
    const {column: i, isDescending} = order;
    headings.forEach(other => other.removeAttribute('aria-sort'));
    headings[i].setAttribute('aria-sort', isDescending ? 'descending' : 'ascending');
    const compare = (a, b) => isNumber[i] || a[i].value !== undefined ? (valueOf(a[i]) || 0) - (valueOf(b[i]) || 0) : textOf(a[i]).localeCompare(textOf(b[i]));
    shown = [...rows].sort((a, b) => isDescending ? compare(b, a) : compare(a, b));
    fill();
  }
  if (canSort && order.column !== undefined) sort();
  else fill();
  const parts = [element('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label},
                         element('table', {}, element('thead', {}, element('tr', {}, ...headings)), body)), more];
  if (csv) parts.push(element('p', {class: 'of-file'}, 'All of it: ', element('a', {href: encodeURI(csv)}, csv)));
  return parts;
}
