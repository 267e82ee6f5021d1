// Fields of a JSON value, made from its JSON Schema: one for each key that is there, and a list of keys that may be added. What a scenario
// needs besides (conditions between keys) the program says when it is checked.
'use strict';

/// What a schema says of a place whose value is `value`: references followed, and of alternatives the one that the value is of.
function schemaFor(schema, value, root) {
  while (schema?.$ref) {
    const {$ref, ...rest} = schema;
    schema = {...root.$defs[$ref.split('/').pop()], ...rest};
  }
  const branches = schema?.anyOf ?? schema?.oneOf;
  if (!branches) return schema ?? {};
  const fits = branches.map(branch => schemaFor(branch, value, root)).filter(branch => isOf(branch, value));
  const known = branch => Object.keys(branch.properties ?? {}).filter(key => key in Object(value)).length;
  fits.sort((a, b) => known(b) - known(a));
  const {anyOf, oneOf, ...own} = schema;
  return {...fits[0], ...own, scalars: branches.map(branch => schemaFor(branch, undefined, root))};
}

const typeOf = value => Array.isArray(value) ? 'array' : value === null ? 'null' : Number.isInteger(value) ? 'integer' : typeof value;

function isOf(schema, value) {
  if (schema.const !== undefined) return schema.const === value;
  if (schema.enum) return schema.enum.includes(value);
  const types = [schema.type ?? (schema.properties ? 'object' : [])].flat();
  return types.length === 0 || types.includes(typeOf(value)) || (types.includes('number') && typeof value === 'number');
}

/// A value to begin with.
function newValue(schema, root) {
  schema = schemaFor(schema, undefined, root);
  if (schema.default !== undefined) return structuredClone(schema.default);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  if (schema.scalars?.length > 0) return newValue(schema.scalars[0], root);
  const type = [schema.type ?? (schema.properties ? 'object' : 'string')].flat()[0];
  if (type === 'object') return Object.fromEntries((schema.required ?? []).map(key => [key, newValue(schema.properties?.[key] ?? {}, root)]));
  if (type === 'array') return Array.from({length: schema.minItems ?? 0}, () => newValue(schema.items ?? {}, root));
  return {boolean: false, integer: schema.minimum ?? 0, number: schema.minimum ?? 0}[type] ?? '';
}

/// A field for each value in `value`, which they change; `onChange()` is called after each change. `onVary(pointer, value)`: the user wants
/// to see what other values of a place would do.
function formOf(value, root, onChange, onVary) {
  let count = 0;

  function button(text, label, action, more = {}) {
    const made = element('button', {type: 'button', 'aria-label': label, ...more}, text);
    made.addEventListener('click', action);
    return made;
  }

  /// The choices of a place, if it has no others; texts that it may be, besides.
  function choices(schema) {
    const branches = schema.scalars ?? [schema];
    const listed = branches.flatMap(branch => branch.enum ?? (branch.const !== undefined ? [branch.const] : branch.type === 'boolean' ? [true, false] : []));
    const isClosed = listed.length > 0 && branches.every(branch => branch.enum || branch.const !== undefined || branch.type === 'boolean' || branch.properties || branch.type === 'object');
    return {listed, isClosed, examples: branches.flatMap(branch => branch.examples ?? [])};
  }

  function input(schema, value, id, set) {
    const {listed, isClosed, examples} = choices(schema);
    if (isClosed) {
      const all = listed.includes(value) ? listed : [value, ...listed];
      const made = element('select', {id}, ...all.map(one => element('option', one === value ? {selected: ''} : {}, String(one))));
      made.addEventListener('change', () => set(all[made.selectedIndex]));
      return [made];
    }
    const types = (schema.scalars ?? [schema]).flatMap(branch => branch.type ?? []);
    const isNumber = typeof value === 'number' && types.every(type => type === 'integer' || type === 'number');
    const limits = Object.fromEntries([['min', schema.minimum], ['max', schema.maximum]].filter(([, limit]) => limit !== undefined));
    const made = element('input', {id, autocomplete: 'off', spellcheck: 'false', value: typeof value === 'string' ? value : JSON.stringify(value),
      ...(isNumber ? {type: 'number', step: schema.type === 'integer' ? '1' : 'any', ...limits} : {type: 'text'})});
    // Units: 25GBps, 100ms. The program has the last word; this shows a slip at once.
    const texts = (schema.scalars ?? [schema]).filter(branch => [branch.type].flat().includes('string'));
    const isRight = text => texts.length === 0 || listed.includes(text) || texts.some(branch => !branch.pattern || new RegExp(branch.pattern).test(text)) || typeof parsed(text) !== 'string';
    const tell = () => { made.setCustomValidity(isRight(made.value) ? '' : `expected such as ${examples.join(', ')}`); made.setAttribute('aria-invalid', !made.validity.valid); };
    tell();
    made.addEventListener('input', () => {
      tell();
      const isText = types.length > 0 && types.every(type => type === 'string' || type === 'object' || type === 'array');
      set(isText && typeof value === 'string' ? made.value : parsed(made.value));
    });
    const offered = [...listed, ...examples].filter(one => typeof one !== 'object');
    if (offered.length === 0) return [made];
    made.setAttribute('list', `${id}-list`);
    return [made, element('datalist', {id: `${id}-list`}, ...offered.map(one => element('option', {value: one})))];
  }
  const parsed = text => { try { return JSON.parse(text); } catch { return text; } };

  function place(parent, key, given, pointer, name, remove, depth) {
    const schema = schemaFor(given, parent[key], root);
    const value = parent[key];
    const id = `field-${++count}`;
    const path = `${pointer}/${String(key).replace(/~/g, '~0').replace(/\//g, '~1')}`;
    const {examples} = choices(schema);
    const help = [schema.description, examples.length > 0 ? `such as ${examples.join(', ')}` : ''].filter(text => text).join('; ');
    const removing = remove ? [button('✕', `Remove ${name}`, remove, {class: 'quiet'})] : [];
    if (typeof value === 'object' && value !== null) {
      const label = value.name && typeof value.name === 'string' ? `${name}: ${value.name}` : name;
      const isOpen = depth < 2 || (Array.isArray(parent) && parent.length <= 4 && depth < 3);
      const details = element('details', isOpen ? {open: ''} : {}, element('summary', {}, label));
      const box = element('div', {class: 'fields'});
      details.append(...(help ? [element('p', {class: 'note'}, help)] : []), box);
      let isFilled = false;
      const fill = () => { isFilled = true; box.replaceChildren(...members(value, schema, path, depth + 1, fill)); };
      details.addEventListener('toggle', () => { if (details.open && !isFilled) fill(); });  // models have thousands of values
      if (isOpen) fill();
      return element('div', {class: 'group'}, details, ...removing);
    }
    const set = changed => { parent[key] = changed; onChange(); };
    const [field, ...lists] = input(schema, value, id, set);
    if (help) field.setAttribute('aria-describedby', `${id}-help`);
    const canVary = onVary && choices(schema).listed.length !== 1 && !['name', 'source'].includes(key);
    const vary = canVary ? [button('vary', `Vary ${path}`, () => onVary(path, parent[key]), {class: 'quiet'})] : [];
    return element('div', {class: 'field'}, element('label', {for: id}, name), element('span', {class: 'value'}, field, ...lists, ...vary, ...removing),
                   ...(help ? [element('small', {class: 'note', id: `${id}-help`}, help)] : []));
  }

  function members(value, schema, pointer, depth, redraw) {
    const change = action => () => { action(); onChange(); redraw(); };
    if (Array.isArray(value)) {
      const items = schema.items ?? {};
      const fields = value.map((_, i) => place(value, i, items, pointer, String(i), change(() => value.splice(i, 1)), depth));
      const add = change(() => value.push(value.length > 0 ? structuredClone(value.at(-1)) : newValue(items, root)));
      return [...fields, element('p', {class: 'adding'}, button('Add one more', `Add one more to ${pointer}`, add))];
    }
    const of = key => schema.properties?.[key] ?? (typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {});
    const isNeeded = key => schema.required?.includes(key);
    const fields = Object.keys(value).map(key => place(value, key, of(key), pointer, key, isNeeded(key) ? null : change(() => { delete value[key]; }), depth));
    const absent = Object.keys(schema.properties ?? {}).filter(key => !(key in value));
    const isOpen = schema.additionalProperties !== false;
    if (absent.length === 0 && !isOpen) return fields;
    const id = `field-${++count}`;
    const chosen = isOpen ? element('input', {id, autocomplete: 'off', placeholder: 'key'})
                          : element('select', {id}, ...absent.map(key => element('option', {value: key}, key)));
    const note = element('small', {class: 'note'});
    const tell = () => { note.textContent = schemaFor(of(chosen.value), undefined, root).description ?? ''; };
    chosen.addEventListener('input', tell);
    tell();
    const add = change(() => { if (chosen.value && !(chosen.value in value)) value[chosen.value] = newValue(of(chosen.value), root); });
    return [...fields, element('p', {class: 'adding'}, element('label', {for: id}, `Add to ${pointer.split('/').pop() || 'this'}`), chosen, button('Add', `Add the key to ${pointer || 'the scenario'}`, add), note)];
  }

  const box = element('div', {class: 'fields'});
  const fill = () => box.replaceChildren(...members(value, schemaFor(root, value, root), '', 0, fill));
  fill();
  return box;
}
