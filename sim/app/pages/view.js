// The pages of `rehearse view`: the list of results (#), the numbers of one (#run/PATH), the form of a scenario (#edit/PATH).
'use strict';

const main = document.getElementById('page');
const token = document.querySelector('meta[name=token]').content;
const order = {column: 3, isDescending: true};  // of the list: the latest first
const chosen = new Set();                       // paths to compare
let known = {version: '', runs: [], scenarios: [], is_cut: false};
let jobs = [];
let wanted = '';                                // of the filter
let redraw = () => {};                          // what is shown takes over a new list or new jobs
const waiting = new Map();                      // by the number of a job: what follows it

// ---- The server ----

async function ask(path, body) {
  const response = await fetch(path, body === undefined ? {} : {
    method: 'POST', headers: {'Content-Type': 'application/json', 'X-Rehearse-Token': token}, body: JSON.stringify(body)});
  if (response.status === 204) return null;
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}
const encoded = path => path.split('/').map(encodeURIComponent).join('/');
const fileLink = (path, text) => element('a', {href: `files/${encoded(path)}`}, text);

const line = element('p', {class: 'status', role: 'status', 'aria-live': 'polite'});
const say = text => { line.textContent = text; };
/// An action whose error is said in one line.
const trying = action => async (...given) => { try { await action(...given); } catch (error) { say(error.message); } };

function action(text, label, does) {
  const made = element('button', {type: 'button', 'aria-label': label}, text);
  made.addEventListener('click', trying(does));
  return made;
}

// ---- The list ----

const local = seconds => { const date = new Date(seconds * 1000 - new Date().getTimezoneOffset() * 60000); return date.toISOString().slice(0, 16).replace('T', ' '); };
const cell = (value, unit) => value === null ? '' : {text: withUnit(value, unit), value};

function listRow(run) {
  const name = run.name || run.path || 'results';
  const box = element('input', {type: 'checkbox', 'aria-label': `Compare ${run.path}`});
  box.checked = chosen.has(run.path);
  box.addEventListener('change', () => { chosen[box.checked ? 'add' : 'delete'](run.path); tellChosen(); });
  const canCompare = run.path && ['simulate', 'replay', 'scenario'].includes(run.kind);
  const isResult = 'page' in run;
  const title = !isResult ? element('a', {href: `#edit/${encoded(run.path)}`}, name)
              : run.page ? fileLink(run.page, name) : element('a', {href: `#run/${encoded(run.path)}`}, name);
  const more = element('span', {class: 'links'},
    ...(isResult ? [element('a', {href: `#run/${encoded(run.path)}`, 'aria-label': `Numbers and files of ${run.path}`}, 'files')] : []),
    ...(run.scenario ? [element('a', {href: `#edit/${encoded(run.scenario)}`, 'aria-label': `Edit the scenario of ${run.path}`}, 'edit')] : []));
  return [canCompare ? {text: '', node: box} : '', {text: name, node: title}, run.path, {text: local(run.changed_s), value: run.changed_s}, run.kind,
          cell(run.samples_per_s ?? null), cell(run.time_s ?? null), cell(run.cost_usd ?? null), {text: '', node: more}, shortened(run.says ?? '', 120)];
}

function jobItem(job) {
  const isOver = !['waiting', 'running'].includes(job.state);
  const seconds = job.state === 'waiting' ? '' : `, ${number(Math.round(job.seconds))} s`;
  const result = known.runs.find(run => run.path === job.result);
  return element('li', {class: job.state}, element('span', {class: 'state'}, `${job.state}${seconds}`), ' ',
    job.state === 'done' && result?.page ? fileLink(result.page, job.title) : job.title, ' ', element('span', {class: 'note'}, job.state === 'done' ? '' : job.line),
    ...(isOver ? [] : [' ', action('Cancel', `Cancel ${job.title}`, () => ask('api/cancel', {id: job.id}))]));
}

const compareButton = action('Compare', 'Compare the two runs that are ticked', async () => {
  const [a, b] = [...chosen];
  const {id, result, page} = await ask('api/compare', {a, b});
  chosen.clear();
  if (page) location.href = `files/${encoded(page)}`;
  // Opens the page once it is there, or says why it is not.
  else waiting.set(id, job => { if (job.state === 'done') location.href = `files/${encoded(result)}/diff.html`; else say(`${job.title}: ${job.state}: ${job.line}`); });
  redraw();
});
function tellChosen() {
  compareButton.disabled = chosen.size !== 2;
  say(chosen.size === 0 ? '' : `${chosen.size} of 2 runs to compare`);
}

function showList() {
  document.title = 'Results';
  const filter = element('input', {id: 'filter', type: 'search', autocomplete: 'off'});
  filter.value = wanted;
  const running = element('ul', {class: 'jobs'}), list = element('div', {class: 'list'}), subtitle = element('p', {class: 'subtitle'});
  const jobsPart = element('section', {}, element('h2', {}, 'Jobs'), running);
  let shown = '';
  function draw() {
    const recent = jobs.slice(0, 8);
    running.replaceChildren(...recent.map(jobItem));
    jobsPart.hidden = recent.length === 0;
    const state = `${known.version} ${wanted} ${[...chosen]}`;
    if (state === shown) return;
    shown = state;
    const words = wanted.toLowerCase().split(/\s+/);
    const all = [...known.runs, ...known.scenarios];
    const rows = all.filter(run => { const text = `${run.path} ${run.name} ${run.kind} ${run.says ?? ''}`.toLowerCase(); return words.every(word => text.includes(word)); });
    const several = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
    subtitle.textContent = `${several(known.runs.length, 'result')}, ${several(known.scenarios.length, 'scenario')}` +
      (rows.length < all.length ? `; ${rows.length} shown` : '') + (known.is_cut ? '; there are more, in a folder further down' : '');
    list.replaceChildren(...(rows.length === 0 ? [element('p', {}, all.length === 0 ? 'There are no results yet: rehearse simulate FILE -o DIR makes some.' : 'Nothing has all of these words.')]
      : table(['compare', 'name', 'folder or file', 'changed', 'made by', 'samples/s', 'time, s', 'cost, USD', 'more', 'says'], rows.map(listRow), 'Results and scenarios', null, true, order)));
  }
  filter.addEventListener('input', () => { wanted = filter.value; draw(); });
  main.replaceChildren(element('h1', {}, 'Results'), subtitle, jobsPart,
    element('div', {class: 'bar'}, element('label', {for: 'filter'}, 'Filter'), filter, compareButton, element('a', {href: '#edit/'}, 'New scenario')), line, list);
  tellChosen();
  redraw = draw;
  draw();
}

// ---- One result ----

const kGiven = /\.(html|json|csv|gz|txt|md|svg|png)$/;  // kinds of files that the server gives

/// Numbers and texts of a value by their pointers.
function plainValues(value, pointer = '', found = []) {
  if (found.length >= 2000) return found;
  if (typeof value === 'object' && value !== null) for (const [key, member] of Object.entries(value)) plainValues(member, `${pointer}/${key}`, found);
  else found.push([pointer, typeof value === 'number' ? {text: number(value), value} : String(value)]);
  return found;
}

async function showRun(path) {
  const run = known.runs.find(one => one.path === path);
  if (!run) { main.replaceChildren(element('h1', {}, 'No such result'), back(), line); return; }
  const inside = name => path ? `${path}/${name}` : name;
  const name = run.name || path || 'results';
  document.title = name;
  const json = run.files.filter(file => file.endsWith('.json') && file !== 'scenario.json')[0];
  const values = json ? plainValues(await ask(`files/${encoded(inside(json))}`)) : [];
  main.replaceChildren(back(), element('h1', {}, name), element('p', {class: 'subtitle'}, `${run.kind}, ${path}, ${local(run.changed_s)}`),
    ...(run.says ? [element('p', {class: 'verdict'}, run.says)] : []), line,
    element('section', {}, element('h2', {}, 'Files'), element('ul', {}, ...run.files.map(file => element('li', {}, kGiven.test(file) ? fileLink(inside(file), file) : file)))),
    ...(values.length > 0 ? [element('section', {}, element('h2', {}, `Numbers of ${json}`), ...table(['key', 'value'], values, `Numbers of ${json}`))] : []));
}

const back = () => element('p', {class: 'subtitle'}, element('a', {href: '#'}, 'All results'));

// ---- The form ----

/// JSON with // and /* */ comments, as scenario files may have them.
const parseCommented = text => JSON.parse(text.replace(/"(?:\\.|[^"\\])*"|\/\/.*|\/\*[^]*?\*\//g, found => found.startsWith('"') ? found : ''));

const kEmpty = `{
  "format": 1,
  "name": "my-run",
  "workload": { "model": "resnet50", "batch_per_worker": 64 },
  "cluster": { "groups": [{ "name": "workers", "role": "worker", "instance": "p3.16xlarge", "count": 1, "region": "us-east-1" }], "network": { "topology": "star" } },
  "training": { "strategy": { "kind": "all_reduce" }, "steps": 100 }
}
`;

async function showForm(path) {
  const given = path ? await ask(`api/scenario/${encoded(path)}`) : {text: kEmpty, json: JSON.parse(kEmpty)};
  const isSweep = 'scenario' in given.json && !('workload' in given.json);
  const schema = await ask(`api/schema/${isSweep ? 'sweep' : 'scenario'}`);
  let value = given.json, isRaw = false;
  document.title = `Edit ${path || 'a new scenario'}`;
  const raw = element('textarea', {'aria-label': 'The file', spellcheck: 'false', rows: '30'});
  raw.value = given.text;
  const place = element('div'), said = element('pre', {class: 'said', tabindex: '0', role: 'region', 'aria-label': 'What the program says'});
  const vary = element('div', {class: 'fields'});
  const addVaried = (pointer = '', current = '') => {
    const field = element('input', {autocomplete: 'off', 'aria-label': 'Place and its values', value: pointer ? `${pointer}=${current}` : '', placeholder: '/cluster/groups/0/count=1..8'});
    const row = element('p', {class: 'varied'}, field, action('✕', 'Do not vary this', () => row.remove()));
    vary.append(row);
    field.focus();
  };
  const varied = () => [...vary.querySelectorAll('input')].map(field => field.value.trim()).filter(text => text);
  const fillForm = () => place.replaceChildren(formOf(value, schema, () => { raw.value = JSON.stringify(value, null, 2) + '\n'; said.textContent = ''; }, isSweep ? null : addVaried));
  const asForm = action('Form', 'Show the form', () => {
    if (isRaw) { value = parseCommented(raw.value); fillForm(); place.hidden = false; raw.hidden = true; }
    press(false);
  });
  const asText = action('JSON', 'Show the JSON file', () => { place.hidden = true; raw.hidden = false; press(true); });
  const press = now => { isRaw = now; asForm.setAttribute('aria-pressed', !now); asText.setAttribute('aria-pressed', now); };
  raw.addEventListener('input', () => { said.textContent = ''; });
  const stem = (path || 'my-run').replace(/\/scenario\.json$/, '').replace(/\.json$/, '').split('/').pop().replace(/[^A-Za-z0-9._-]/g, '-');
  const isTaken = name => [...known.runs, ...known.scenarios].some(one => [name, `${name}.json`].includes(one.path.split('/').pop()));
  let free = stem;
  for (let i = 2; isTaken(free); ++i) free = `${stem}-${i}`;
  const name = element('input', {id: 'name', autocomplete: 'off', value: free});
  const check = action('Check', 'Check the scenario', async () => {
    said.textContent = 'checking …';
    const answer = await ask('api/check', {path, text: raw.value, vary: varied()}).catch(error => { said.textContent = ''; throw error; });
    said.textContent = answer.said;
    said.className = answer.is_valid ? 'said' : 'said wrong';
  });
  const run = action('Run', 'Run the scenario', async () => {
    const {id, result} = await ask('api/run', {path, text: raw.value, vary: varied(), name: name.value.trim()});
    say(`${result} is running`);
    waiting.set(id, job => say(`${job.title}: ${job.state}${job.state === 'done' ? '' : ': ' + job.line}`));
    location.hash = '';
  });
  main.replaceChildren(back(), element('h1', {}, path ? `Edit ${path}` : 'New scenario'),
    element('div', {class: 'bar'}, asForm, asText, check, element('label', {for: 'name'}, 'Name of the result'), name, run), line, said, place, raw,
    element('section', {}, element('h2', {}, 'Vary'), element('p', {}, 'With a place and several values, 1..8 or 32,64, every combination is run: a sweep.'), vary,
            element('p', {}, action('Vary a place', 'Vary a place', () => addVaried()))));
  raw.hidden = true;
  press(false);
  fillForm();
}

// ---- What is shown ----

const route = trying(async () => {
  const [, kind, path] = /^#?(?:(run|edit)\/(.*))?$/.exec(location.hash) ?? [];
  redraw = () => {};
  if (kind === undefined) return showList();
  main.replaceChildren(line);
  say('');
  return (kind === 'run' ? showRun : showForm)(decodeURIComponent(path));
});

let isLost = false;
async function look() {
  try {
    const [list, now] = await Promise.all([ask(`api/index/${known.version}`), ask('api/jobs')]);
    if (isLost) say('');
    isLost = false;
    if (list) known = list;
    jobs = now;
    for (const job of jobs)
      if (waiting.has(job.id) && !['waiting', 'running'].includes(job.state)) {
        const then = waiting.get(job.id);
        waiting.delete(job.id);
        then(job);
      }
    redraw();
  } catch (error) {
    if (!isLost) say(`The server does not answer: ${error.message}`);
    isLost = true;
  }
  setTimeout(look, document.hidden ? 5000 : 1000);
}

addEventListener('hashchange', route);
look().then(route);
