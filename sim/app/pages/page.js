// Draws a page from its data, the JSON of element "data" (document.cpp writes it): figures by Apache ECharts, tables that sort.
// What writes text and tables is in tables.js.
(() => {
'use strict';

const page = JSON.parse(document.getElementById('data').textContent);
const kMostNumbers = 2000;  // rows of a figure's own table
const charts = [];          // {box, make, chart}

// ---- Figures: options of ECharts. Each gets the data, the width in pixels and the colours. ----

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = name => style.getPropertyValue(`--${name}`).trim();
  return {text: of('text'), soft: of('soft'), line: of('line'), box: of('box'), page: of('page'), low: of('low'),
          calm: of('calm'), warm: of('warm'), hot: of('hot'), palette: [0, 1, 2, 3, 4, 5, 6, 7].map(i => of(`c${i}`))};
}
/// `share` of the way from one colour, #rrggbb, to another.
const mixed = (from, to, share) => '#' + [1, 3, 5].map(i => { const [a, b] = [from, to].map(hex => parseInt(hex.slice(i, i + 2), 16)); return Math.round(a + (b - a) * share).toString(16).padStart(2, '0'); }).join('');
const loadColour = (load, c) => load >= 0.9 ? c.hot : load >= 0.6 ? c.warm : c.calm;

const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

function base(c, figure) {
  return {
    color: c.palette, backgroundColor: 'transparent', animation: false,
    textStyle: {color: c.text, fontFamily: font, fontSize: 12},
    aria: {enabled: true, label: {description: figure.title}},
    tooltip: {confine: true, backgroundColor: c.page, borderColor: c.line, textStyle: {color: c.text, fontSize: 12},
              extraCssText: 'max-width: min(420px, 80vw); white-space: normal; overflow-wrap: anywhere;'},
    legend: {type: 'scroll', bottom: 0, left: 0, itemWidth: 14, itemHeight: 10, textStyle: {color: c.text},
             pageTextStyle: {color: c.soft}, pageIconColor: c.soft, formatter: name => shortened(name, 40)},
  };
}

const axis = (c, more) => ({
  axisLine: {show: true, lineStyle: {color: c.line}}, axisTick: {show: false}, splitLine: {lineStyle: {color: c.line, opacity: .7}},
  axisLabel: {color: c.soft, hideOverlap: true, formatter: number}, nameTextStyle: {color: c.soft}, ...more,
});
const categories = (c, names, more = {}) => axis(c, {type: 'category', data: names, splitLine: {show: false}, ...more,
  axisLabel: {color: c.soft, hideOverlap: true, formatter: name => shortened(name, 28), ...(more.axisLabel || {})}});

function plot(figure, width, c) {
  const values = figure.series.flatMap(series => series.y).filter(y => y !== null);
  const hasOnlyPoints = figure.series.every(series => series.points);
  const low = Math.min(...values), high = Math.max(...values);
  // Lengths from zero can be compared; values that lie close to each other far from it cannot be seen then.
  const fits = figure.logarithmic || hasOnlyPoints || (low > 0.7 * high && high - low > 0.02 * high && figure.y !== '%');
  const count = Math.max(0, ...figure.series.map(series => series.x.length));
  const type = figure.logarithmic ? 'log' : 'value';
  const series = figure.series.map((of, i) => ({
    name: of.name, type: of.points ? 'scatter' : 'line', data: of.x.map((x, k) => [x, of.y[k]]), symbolSize: of.points ? 7 : 4,
    showSymbol: of.points || of.x.length < 12, lineStyle: {width: 1.8, type: ['solid', 'dashed', 'dotted'][Math.floor(i / 8) % 3]},
    symbol: of.points ? ['circle', 'triangle', 'diamond', 'rect'][i % 4] : 'circle', itemStyle: of.points ? {opacity: .8} : {},
  }));
  const all = figure.series.flatMap(of => [...of.x, ...of.y]).filter(v => v !== null);
  if (figure.diagonal && all.length > 0) {
    const ends = [Math.min(...all), Math.max(...all)];
    series.push({name: 'equal', type: 'line', data: ends.map(v => [v, v]), symbol: 'none', lineStyle: {color: c.soft, type: 'dashed', width: 1}, itemStyle: {color: c.soft}});
  }
  const hasSlider = count > 150 && !hasOnlyPoints;
  const option = base(c, figure);
  const bottom = (series.length > 1 ? 26 : 4) + (hasSlider ? 26 : 0);
  return {...option, series,
    legend: {...option.legend, show: series.length > 1},
    grid: {left: 8, right: 18, top: 24, bottom: bottom + 20, outerBounds: {left: 4, right: 8, top: 2, bottom}},
    xAxis: axis(c, {type, scale: true, name: figure.x, nameLocation: 'middle', nameGap: 24}),
    yAxis: axis(c, {type, scale: fits, max: figure.y === '%' && high <= 100 ? 100 : null, name: figure.y, nameLocation: 'end', nameGap: 10, nameTextStyle: {color: c.soft, align: 'left', padding: [0, 0, 0, -30]}}),
    tooltip: {...option.tooltip, trigger: hasOnlyPoints ? 'item' : 'axis', axisPointer: {lineStyle: {color: c.soft}},
      formatter: of => { const items = [of].flat(); return (hasOnlyPoints ? '' : `${escaped(figure.x)} ${number(items[0].value[0])}<br>`) +
        items.map(item => `${item.marker}${escaped(item.seriesName)}: ${hasOnlyPoints ? number(item.value[0]) + ' → ' : ''}${number(item.value[1])}`).join('<br>'); }},
    dataZoom: [{type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: 'shift'},
               ...(hasSlider ? [{type: 'slider', height: 14, bottom: series.length > 1 ? 26 : 4, borderColor: c.line, showDetail: false}] : [])]};
}

function heat(figure, width, c) {
  const data = figure.values.flatMap((row, i) => row.map((value, k) => [k, i, value])).filter(cell => cell[2] !== null);
  const values = data.map(cell => cell[2]);
  const option = base(c, figure);
  const room = (width - 120) / figure.columns.length;
  return {...option, legend: {show: false},
    grid: {left: 8, right: 16, top: 24, bottom: 56, outerBounds: {left: 4, right: 8, top: 2, bottom: 30}},
    xAxis: categories(c, figure.columns, {name: figure.x, nameLocation: 'middle', nameGap: 24}),
    yAxis: categories(c, figure.rows, {name: figure.y, inverse: true, nameLocation: 'start', nameTextStyle: {color: c.soft, align: 'left', padding: [0, 0, 0, -30]}}),
    visualMap: {type: 'continuous', min: Math.min(...values), max: Math.max(...values), orient: 'horizontal', left: 0, bottom: 0, itemHeight: 120, itemWidth: 10,
                precision: 3, text: [withUnit(Math.max(...values), figure.unit), number(Math.min(...values))], textStyle: {color: c.soft}, inRange: {color: [c.low, c.palette[0]]}},
    tooltip: {...option.tooltip, formatter: item => `${escaped(figure.rows[item.value[1]])}, ${escaped(figure.columns[item.value[0]])}: ${escaped(withUnit(item.value[2], figure.unit))}`},
    series: [{type: 'heatmap', data, itemStyle: {borderColor: c.page, borderWidth: 1},
              label: {show: room > 44 && data.length < 400, color: c.text, formatter: item => item.value[2] === 0 ? '' : number(item.value[2])}}]};
}

/// Stacked: one series for each name of a part. Bars of one part each have their values beside them instead.
function bars(figure, width, c) {
  const option = base(c, figure);
  const x = {splitLine: {show: false}, axisLabel: {color: c.soft, hideOverlap: true, formatter: v => withUnit(v, figure.unit)}};
  if (isList(figure))
    return {...option, legend: {show: false},
      grid: {left: 8, right: 76, top: 2, bottom: 2, outerBounds: {left: 0, right: 70, top: 0, bottom: 0}},
      xAxis: {type: 'value', show: false}, yAxis: categories(c, figure.bars.map(bar => bar.name), {inverse: true, axisLine: {show: false}, axisLabel: {color: c.text, interval: 0, width: 150, overflow: 'truncate'}}),
      tooltip: {...option.tooltip, formatter: item => `${escaped(item.data.note || item.name)}: <b>${escaped(withUnit(item.value, figure.unit))}</b>`},
      series: [{type: 'bar', barMaxWidth: 16, data: figure.bars.map(bar => bar.parts[0]), itemStyle: {color: c.palette[0]}, label: {show: true, position: 'right', color: c.text, formatter: item => withUnit(+item.value.toPrecision(3), figure.unit)}}]};
  const all = figure.bars.flatMap(bar => bar.parts);
  const names = [...new Set(all.map(part => part.name))];
  const families = [...new Set(names.map(name => all.find(part => part.name === name).family || name))];
  const inFamily = {};
  const totals = figure.bars.map(bar => bar.parts.reduce((sum, part) => sum + part.value, 0));
  const longest = Math.max(...totals);
  const isOne = figure.bars.length === 1;
  const room = width - (isOne ? 20 : 190);
  const series = names.map(name => {
    const family = all.find(part => part.name === name).family || name;
    const shade = inFamily[family] = (inFamily[family] ?? -1) + 1;
    return {name, type: 'bar', stack: 'all', barMaxWidth: 34, barMinWidth: 26,
      itemStyle: {borderColor: c.page, borderWidth: 1, color: mixed(c.palette[name === 'rest' || name === 'measured' ? 7 : families.indexOf(family) % 7], c.page, Math.min(.5, .14 * shade))},
      data: figure.bars.map((bar, i) => { const part = bar.parts.find(one => one.name === name); return part ? {...part, share: part.value / totals[i]} : null; }),
      label: {show: true, color: '#fff', textBorderColor: 'rgba(0,0,0,.6)', textBorderWidth: 2, fontSize: 12.5,
        formatter: item => { const pixels = item.data ? room * item.data.value / longest : 0;
          if (pixels < 36) return '';
          const share = `${Math.round(item.data.share * 100)} %`, both = `${name} ${share}`;
          return pixels > both.length * 7.2 + 8 ? both : share; }}};
  });
  return {...option, series, legend: {...option.legend, type: width < 600 ? 'scroll' : 'plain'},
    aria: {...option.aria, decal: {show: true, decals: kDecals}},
    grid: {left: 0, right: 16, top: 2, bottom: 44, outerBounds: {left: 0, right: 0, top: 2, bottom: 24}},
    xAxis: axis(c, {type: 'value', max: longest, ...x, axisLabel: {...x.axisLabel, showMaxLabel: false}}),
    yAxis: categories(c, figure.bars.map(bar => bar.name), {inverse: true, show: !isOne, axisLine: {show: false}, axisLabel: {color: c.text, width: 150, overflow: 'break', interval: 0}}),
    tooltip: {...option.tooltip, formatter: item => `${item.marker}${escaped(item.seriesName)}<br><b>${escaped(withUnit(item.value, figure.unit))}</b>, ${percent(item.data.share)}${item.data.note && item.data.note !== item.seriesName ? '<br>' + escaped(item.data.note) : ''}`}};
}
const isList = figure => figure.bars.every(bar => bar.parts.length === 1) && figure.bars.length > 1;

/// Patterns, for those who cannot tell the colours: plain, then lines and dots, all faint.
const kFaint = {color: 'rgba(255,255,255,.28)'};
const kDecals = [
  {symbol: 'none'},
  {...kFaint, dashArrayX: [1, 0], dashArrayY: [2, 6], rotation: Math.PI / 4, symbol: 'rect'},
  {...kFaint, symbol: 'circle', dashArrayX: [[6, 6], [0, 6, 6, 0]], dashArrayY: [6, 0], symbolSize: .7},
  {...kFaint, dashArrayX: [1, 0], dashArrayY: [2, 6], rotation: -Math.PI / 4, symbol: 'rect'},
  {...kFaint, dashArrayX: [1, 0], dashArrayY: [2, 6], symbol: 'rect'},
  {...kFaint, dashArrayX: [2, 6], dashArrayY: [1, 0], symbol: 'rect'},
  {...kFaint, symbol: 'triangle', dashArrayX: [[9, 9], [0, 9, 9, 0]], dashArrayY: [7, 2], symbolSize: .75},
  {...kFaint, dashArrayX: [1, 0], dashArrayY: [4, 4], rotation: Math.PI / 4, symbol: 'rect'},
];

/// From one value to another by changes, each of which begins where the one before has ended.
function waterfall(figure, width, c) {
  const names = [figure.from_name, ...figure.changes.map(change => change[0]), figure.to_name];
  const gap = [], up = [], down = [], ends = [];
  let at = figure.from;
  ends.push(at); gap.push(0); up.push(null); down.push(null);
  for (const [, change] of figure.changes) {
    gap.push(Math.min(at, at + change));
    up.push(change > 0 ? change : null);
    down.push(change > 0 ? null : -change);
    ends.push(null);
    at += change;
  }
  ends.push(at); gap.push(0); up.push(null); down.push(null);
  const option = base(c, figure);
  const signed = sign => item => item.value === null ? '' : `${sign}${withUnit(item.value, figure.unit)}`;
  const bar = (name, data, colour, sign) => ({name, type: 'bar', stack: 'all', data, itemStyle: {color: colour}, barMaxWidth: 26,
    label: {show: true, position: 'right', color: c.text, formatter: signed(sign)}});
  return {...option,
    legend: {...option.legend, data: ['more', 'less'].filter((_, i) => figure.changes.some(change => (change[1] > 0) === (i === 0)))},
    grid: {left: 8, right: 90, top: 4, bottom: 46, outerBounds: {left: 4, right: 80, top: 2, bottom: 24}},
    xAxis: axis(c, {type: 'value', axisLabel: {color: c.soft, hideOverlap: true, formatter: v => withUnit(v, figure.unit)}}),
    yAxis: categories(c, names, {inverse: true, axisLabel: {width: Math.min(220, width / 3), overflow: 'break'}}),
    tooltip: {...option.tooltip, formatter: item => `${escaped(item.name)}: ${escaped(withUnit(item.value, figure.unit))}`},
    series: [{type: 'bar', stack: 'all', data: gap, itemStyle: {color: 'transparent'}, silent: true, tooltip: {show: false}},
             bar('value', ends, c.palette[7], ''), bar('more', up, c.palette[1], '+'), bar('less', down, c.palette[2], '−')]};
}

/// What each does over time: a custom series for each class of work, so that the legend turns it off.
function lanes(figure, width, c) {
  const option = base(c, figure);
  const draw = (_, api) => {
    const from = api.coord([api.value(1), api.value(0)]), to = api.coord([api.value(2), api.value(0)]);
    const height = api.size([0, 1])[1] * .62;
    const area = {x: from[0], y: from[1] - height / 2, width: Math.max(to[0] - from[0], .6), height};
    return {type: 'rect', shape: area, style: {fill: api.visual('color')}};
  };
  return {...option,
    grid: {left: 8, right: 16, top: 4, bottom: 74, outerBounds: {left: 4, right: 12, top: 2, bottom: 48}},
    xAxis: axis(c, {type: 'value', min: 0, max: figure.length, axisLabel: {color: c.soft, hideOverlap: true, formatter: v => withUnit(v, figure.unit)}}),
    yAxis: categories(c, figure.lanes, {inverse: true, axisLabel: {width: Math.min(170, width / 3), overflow: 'truncate', interval: 0}}),
    dataZoom: [{type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: 'shift', filterMode: 'weakFilter'},
               {type: 'slider', height: 14, bottom: 28, borderColor: c.line, showDetail: false, filterMode: 'weakFilter'}],
    tooltip: {...option.tooltip, formatter: item => `${item.marker}${escaped(item.seriesName)}<br>${escaped(figure.names[item.value[3]])}<br><b>${escaped(withUnit(item.value[2] - item.value[1], figure.unit))}</b> from ${number(item.value[1])}`},
    series: figure.classes.map((name, i) => ({name, type: 'custom', renderItem: draw, clip: true, encode: {x: [1, 2], y: 0},
      itemStyle: {color: name.startsWith('waits') ? c.line : c.palette[i % 8]},
      data: figure.spans.filter(span => span[1] === i).map(([lane, , start, end, name]) => [lane, start, end, name])}))};
}

/// Groups of like machines below the networks that connect them.
function cluster(figure, width, c) {
  const option = base(c, figure);
  const height = clusterHeight(figure, width), columns = clusterColumns(figure, width);
  const room = width / columns, boxWidth = Math.min(room - 18, 300);
  const nodes = [], links = [];
  const text = (id, x, y, lines, more = {}) => nodes.push({id, name: lines[0], value: [x, y], symbol: 'rect', symbolSize: [1, 1], itemStyle: {color: 'transparent'}, silent: true,
    label: {show: true, position: 'inside', align: 'center', verticalAlign: 'middle', color: c.text, lineHeight: 15, overflow: 'truncate', width: boxWidth - 12, formatter: () => lines.join('\n'), ...more}});
  const ofNetwork = i => (i + .5) * width / figure.networks.length;
  const networkWidth = Math.min(width / figure.networks.length - 8, 460);
  figure.networks.forEach((network, i) => {
    nodes.push({id: `network${i}`, name: network.name, note: network.note, value: [ofNetwork(i), 26], symbol: 'rect', symbolSize: [networkWidth, 48], label: {show: false}, itemStyle: {color: c.box}});
    text(`network-text${i}`, ofNetwork(i), 26, network.note ? [network.name, network.note] : [network.name], {width: networkWidth - 16});
  });
  figure.groups.forEach((group, i) => {
    const x = (i % columns + .5) * room, y = kNetworkPart + Math.floor(i / columns) * kGroupPart + kBox / 2;
    const box = {symbol: 'rect', symbolSize: [boxWidth, kBox], label: {show: false}, itemStyle: {color: c.box}};
    for (const shift of group.count > 1 ? [8, 4] : []) nodes.push({...box, itemStyle: {color: mixed(c.box, c.soft, shift === 8 ? .3 : .15)}, id: `shadow${i}-${shift}`, name: group.name, note: group.note, value: [x + shift, y + shift]});
    nodes.push({...box, id: `group${i}`, name: group.name, note: group.note, value: [x, y]});
    const busy = group.gpus > 0 ? `${group.gpu}, ${Math.round(group.gpu_busy * 100)} % busy` : `threads ${Math.round(group.cpu_busy * 100)} % busy`;
    text(`text${i}`, x, y - kBox / 2 + 24, [`${group.count > 1 ? group.count + ' × ' : ''}${group.name}`, (group.gpus > 1 ? `${group.gpus} × ` : '') + busy]);
    const most = Math.min(group.gpus, 16), side = Math.min(18, (boxWidth - 20) / 8 - 4);
    for (let g = 0; g < most; ++g) {
      const row = Math.floor(g / 8), inRow = Math.min(8, most - row * 8);
      nodes.push({id: `gpu${i}-${g}`, name: `${group.gpu}, busy ${percent(group.gpu_busy)}`, symbol: 'rect', symbolSize: side, label: {show: false},
                  value: [x + (g % 8 - (inRow - 1) / 2) * (side + 4), y + 12 + row * (side + 4)], itemStyle: {color: mixed(c.page, c.palette[0], .15 + .85 * group.gpu_busy)}});
    }
    links.push({source: `network${group.network}`, target: `group${i}`, note: group.link, load: group.load,
                lineStyle: {color: loadColour(group.load, c), width: 2 + 6 * group.load, opacity: 1}});
    const end = kNetworkPart + Math.floor(i / columns) * kGroupPart;
    text(`link${i}`, figure.groups.length === 1 ? x : x + (ofNetwork(group.network) - x) * .25, end - 22, [group.link, `${percent(group.load)} busy`],
         {backgroundColor: c.page, padding: [1, 4], fontSize: 11.5, lineHeight: 14, width: room - 10});
  });
  return {...option, legend: {show: false},
    grid: {left: 0, right: 0, top: 0, bottom: 0, outerBoundsMode: 'none'},
    xAxis: {type: 'value', show: false, min: 0, max: width}, yAxis: {type: 'value', show: false, inverse: true, min: 0, max: height},
    tooltip: {...option.tooltip, formatter: item => item.dataType === 'edge' ? `${escaped(item.data.note)}: ${percent(item.data.load)} busy` :
      escaped(item.name) + (item.data.note ? `<br>${escaped(item.data.note)}` : '')},
    series: [{type: 'graph', coordinateSystem: 'cartesian2d', layout: 'none', data: nodes, links, edgeLabel: {show: false}, emphasis: {disabled: true}}]};
}
const kNetworkPart = 110, kBox = 96, kGroupPart = 170;  // pixels from the top to the first groups, of a group, from one row to the next
const clusterColumns = (figure, width) => Math.max(1, Math.min(figure.groups.length, Math.floor(width / 170)));
const clusterHeight = (figure, width) => kNetworkPart + (Math.ceil(figure.groups.length / clusterColumns(figure, width)) - 1) * kGroupPart + kBox + 12;

/// One line for each row over axes; coloured by the last one.
function parallel(figure, width, c) {
  const option = base(c, figure);
  const last = figure.axes.length - 1;
  // A few numbers, such as counts of machines, are steps with nothing between them.
  const distinct = figure.axes.map((_, i) => [...new Set(figure.rows.map(row => row[i]))]);
  const isOfNumbers = figure.axes.map((_, i) => distinct[i].every(value => typeof value === 'number' || value === null));
  const isNumber = isOfNumbers.map((is, i) => is && (i === last || distinct[i].length > 12));
  const values = figure.rows.map(row => row[last]).filter(value => value !== null);
  return {...option, legend: {show: false},
    parallel: {left: 60, right: 80, top: 30, bottom: 14},
    parallelAxis: figure.axes.map((name, dim) => ({dim, name: shortened(name, Math.max(8, Math.floor(width / figure.axes.length / 7))), nameTextStyle: {color: c.text}, axisLine: {lineStyle: {color: c.soft}},
      axisLabel: {color: c.soft, formatter: isNumber[dim] ? number : name => shortened(String(name), 16)},
      ...(isNumber[dim] ? {type: 'value', scale: true} : {type: 'category', data: (isOfNumbers[dim] ? distinct[dim].sort((a, b) => a - b) : distinct[dim]).map(String)})})),
    visualMap: {show: false, dimension: last, min: Math.min(...values), max: Math.max(...values), inRange: {color: [c.palette[7], c.palette[0], c.palette[1]]}},
    tooltip: {...option.tooltip, formatter: item => figure.axes.map((name, i) => `${escaped(name)}: ${escaped(typeof item.value[i] === 'number' ? number(item.value[i]) : item.value[i])}`).join('<br>')},
    series: [{type: 'parallel', data: figure.rows.map(row => row.map((value, i) => isNumber[i] ? value : String(value))), lineStyle: {width: 1.6, opacity: .6}, smooth: false}]};
}

/// Options, height in pixels at a width, the same numbers as a table (header, rows), and whether it takes the whole row. Thousands of
/// rectangles are drawn faster on a canvas.
const kinds = {
  plot: {make: plot, height: () => 290, numbers: f => [['series', f.x || 'x', f.y || 'y'], f.series.flatMap(s => s.x.map((x, i) => [s.name, number(x), number(s.y[i])]))]},
  heat: {make: heat, height: f => 96 + Math.min(34, Math.max(18, 620 / f.rows.length)) * f.rows.length,
         numbers: f => [[f.y || '', ...f.columns], f.rows.map((name, i) => [name, ...f.values[i].map(number)])]},
  bars: {make: bars, height: f => isList(f) ? 6 + 24 * f.bars.length : f.bars.length === 1 ? 92 : 56 + 42 * f.bars.length, isWide: f => !isList(f),
         numbers: f => [['', 'part', f.unit], f.bars.flatMap(bar => bar.parts.map(part => [bar.name, part.name, number(part.value)]))]},
  waterfall: {make: waterfall, height: f => 66 + 34 * (f.changes.length + 2), isWide: () => true,
              numbers: f => [['', f.unit], [[f.from_name, number(f.from)], ...f.changes.map(([name, change]) => [name, number(change)])]]},
  lanes: {make: lanes, renderer: 'canvas', height: f => 86 + 24 * f.lanes.length, isWide: () => true,
          numbers: f => [['lane', 'work', 'name', `from, ${f.unit}`, `to, ${f.unit}`], f.spans.map(s => [f.lanes[s[0]], f.classes[s[1]], f.names[s[4]], number(s[2]), number(s[3])])]},
  cluster: {make: cluster, height: clusterHeight,
            numbers: f => [['machines', 'count', 'GPUs', 'GPU busy', 'link', 'link busy'], f.groups.map(g => [g.name, String(g.count), String(g.gpus), g.gpus ? percent(g.gpu_busy) : '', g.link, percent(g.load)])]},
  parallel: {make: parallel, height: () => 380, isWide: () => true, numbers: f => [f.axes, f.rows.map(row => row.map(v => typeof v === 'number' ? number(v) : String(v)))]},
};

// ---- From data to elements ----

function figureOf(figure) {
  const kind = kinds[figure.kind];
  const box = element('div', {class: 'chart', 'data-kind': figure.kind});
  const details = element('details', {}, element('summary', {}, 'Numbers'));
  details.addEventListener('toggle', () => {
    if (details.childElementCount > 1) return;
    const [header, rows] = kind.numbers(figure);
    details.append(...table(header, rows.slice(0, kMostNumbers), `Numbers of ${figure.title}`));
  });
  charts.push({box, figure, kind});
  return element('figure', kind.isWide?.(figure) ? {class: 'wide'} : {}, ...(figure.title ? [element('figcaption', {}, figure.title)] : []), box, details);
}

function sectionOf(section, isOfOverview) {
  const parts = [element('h2', {}, section.title), ...section.paragraphs.map(text => element('p', {}, text))];
  if (section.figures.length > 0) parts.push(element('div', {class: 'figures'}, ...section.figures.map(figureOf)));
  for (const of of section.tables) parts.push(...table(of.header, of.rows, section.title, of.csv, !isOfOverview));
  return element('section', section.wide ? {class: 'wide'} : {}, ...parts);
}

/// "10.6 k samples/s": the number stands out.
function numberAndUnit(value) {
  const parts = /^([\d.,e+-]+(?: [kMGT])?) ([^\d]+)$/.exec(value);
  return parts ? [parts[1], element('span', {class: 'unit'}, ` ${parts[2]}`)] : [value];
}

function build() {
  const main = document.getElementById('page');
  main.append(element('h1', {}, page.title));
  if (page.subtitle) main.append(element('p', {class: 'subtitle'}, page.subtitle));
  if (page.verdict) main.append(element('p', {class: 'verdict'}, page.verdict));
  if (page.headlines.length > 0)
    main.append(element('dl', {class: 'headlines'}, ...page.headlines.map(({label, value, range}) => element('div', {}, element('dt', {}, label),
      element('dd', {}, ...numberAndUnit(value), ...(range ? [element('span', {class: 'range'}, range)] : []))))));
  if (page.overview.length > 0) main.append(element('div', {class: 'overview'}, ...page.overview.map(section => sectionOf(section, true))));
  main.append(...page.sections.map(section => sectionOf(section, false)));
}

function draw(of) {
  const width = of.box.clientWidth;
  if (width === 0) return;
  const height = of.kind.height(of.figure, width);
  of.box.style.height = `${height}px`;
  of.width = width;
  if (of.chart) of.chart.resize({width, height});
  else of.chart = echarts.init(of.box, null, {renderer: of.kind.renderer ?? 'svg', width, height});
  of.chart.setOption(of.kind.make(of.figure, width, colours()), true);
}

build();
// The words can be read while the library behind this script loads. What is on the first screen is drawn then, the rest when it
// comes near.
addEventListener('DOMContentLoaded', () => {
  const watcher = new IntersectionObserver(entries => {
    for (const entry of entries)
      if (entry.isIntersecting) {
        const of = charts.find(chart => chart.box === entry.target);
        watcher.unobserve(entry.target);
        if (!of.chart) draw(of);
      }
  }, {rootMargin: '300px'});
  for (const of of charts) {
    if (of.box.clientWidth > 0 && of.box.getBoundingClientRect().top < innerHeight) draw(of);
    else watcher.observe(of.box);
  }
});
for (const of of charts) of.box.style.height = `${of.kind.height(of.figure, of.box.clientWidth)}px`;
let waiting = 0;
addEventListener('resize', () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => charts.forEach(of => { if (of.chart && of.box.clientWidth !== of.width) draw(of); }));
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => charts.forEach(of => { if (of.chart) draw(of); }));
// Paper is narrower, and has no second look at what was not yet drawn.
addEventListener('beforeprint', () => { document.body.classList.add('printed'); charts.forEach(draw); });
addEventListener('afterprint', () => { document.body.classList.remove('printed'); charts.forEach(draw); });
})();
