import { describe, expect, test } from 'vitest';
import { mapReduce, quickstart } from '../../../../dev/trace';
import { svgOf } from '../../../draw/svg';
import { drawTimeline } from '../../../draw/timeline';
import { apply } from '../../../model/apply';
import { TaskGraph } from '../../../model/graph';
import { readyAt } from '../../../model/phases';
import { chromeTrace } from '../../../model/views/chrome_trace';
import { tableOf } from '../../../model/views/tables';
import { arrange, extent, fitTime, spanOf, tickLabel, ticks, zoomTime } from '../../../model/views/timeline';
import { gapReason, story } from '../../../model/views/timeline_words';
import { State } from '../../../protocol/messages';
import { makeTheme } from '../../../theme/theme';
import { machineLabel, message, play, recorder, sample, workerLabel } from '../../helpers';

/** Rows that ran on worker 1 at these times, with the dependencies given. */
function ran(times: [start: number, end: number][], edges: [number, number][] = []): TaskGraph {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: times.map(() => ({ submitted: 0 })),
      updates: times.map(([started, finished], row) => ({ row, state: State.finished, worker: 1, started, finished })),
      edges,
      header: { now: 10, workers: [[1, workerLabel(7, 'idle')]] }
    }),
    0
  );
  return graph;
}

const WIDE = { t0: 0, pxPerS: 100 };

test('a bar lies where and when its task ran', () => {
  const { bars, lanes } = arrange(
    ran([
      [1, 2],
      [3, 3.5]
    ]),
    WIDE,
    1000,
    10
  );
  expect(lanes).toEqual([{ worker: 1, node: 0, title: 'worker', detail: '7', group: '', rank: -1 }]);
  expect(bars.map(({ row, x0, x1, nTracks }) => [row, x0, x1, nTracks])).toEqual([
    [0, 100, 200, 1],
    [1, 300, 350, 1]
  ]);
});

test('what is out of view is not there', () => {
  expect(
    arrange(
      ran([
        [1, 2],
        [30, 40]
      ]),
      { t0: 5, pxPerS: 100 },
      1000,
      50
    ).bars
  ).toEqual([]);
});

test('bars of a lane that overlap share its height, the others have all of it', () => {
  const { bars } = arrange(
    ran([
      [1, 4],
      [2, 3],
      [3, 5],
      [6, 7]
    ]),
    WIDE,
    1000,
    10
  );
  expect(bars.map(({ track, nTracks }) => [track, nTracks])).toEqual([
    [0, 2],
    [1, 2],
    [1, 2],
    [0, 1]
  ]);
});

test('tasks too short for a bar add up to the share of time they took', () => {
  const times = Array.from({ length: 100 }, (_, i): [number, number] => [i / 1000, i / 1000 + 0.0005]);
  const { bars, cover } = arrange(ran(times), WIDE, 1000, 10);
  expect(bars).toEqual([]);
  expect(cover.reduce((sum, share) => sum + share, 0)).toBeCloseTo(100 * 0.05, 0);
  expect(cover.subarray(11).every(share => share === 0)).toBe(true);
});

test('a running task reaches to the present', () => {
  const graph = ran([[1, Number.NaN]]);
  apply(
    graph,
    message('delta', { updates: [{ row: 0, state: State.running, worker: 1, started: 1, finished: Number.NaN }] }),
    0
  );
  expect(spanOf(graph, 0, 4)).toEqual([1, 4]);
  expect(extent(graph, 4)).toEqual([0, 4]);
});

/** One row that loaded its arguments for two of its four seconds. */
function loaded(): TaskGraph {
  const graph = new TaskGraph();
  const updates = [{ row: 0, state: State.finished, worker: 1, started: 1, called: 3, finished: 5 }];
  apply(
    graph,
    message('snapshot', {
      rows: [{ submitted: 0 }],
      updates,
      header: { now: 10, workers: [[1, workerLabel(7, 'idle')]] }
    }),
    0
  );
  return graph;
}

test('what loading arguments took is told, drawn lower than the run, and a slice of the trace', () => {
  const graph = loaded();
  const [bar] = arrange(graph, WIDE, 1000, 10).bars;
  expect([bar!.x0, bar!.xCall, bar!.x1]).toEqual([100, 300, 500]);
  expect(story(graph, 0, 9)).toEqual([
    '1.0\u00a0s in the queue',
    '2.0\u00a0s to load its code and arguments',
    'ran 2.0\u00a0s'
  ]);
  expect(gapReason(graph, 2)).toEqual(['nothing else was to do while 1 task ran', '1 of them loaded its arguments']);
  expect(gapReason(graph, 4)).toEqual(['nothing else was to do while 1 task ran']);
  const made = tableOf(graph, 'tasks', 9, null, null);
  expect(made.columns.find(({ key }) => key === 'loaded')!.text(0)).toBe('2.0\u00a0s');
  const view = { width: 900, height: 100 };
  const scene = {
    graph,
    theme: makeTheme(() => '', false),
    arranged: arrange(graph, WIDE, 790, 10),
    scale: WIDE,
    view,
    top: 0,
    now: 10,
    hovered: -1,
    selected: -1,
    brush: null,
    lit: null
  };
  const { pen, commands } = recorder();
  drawTimeline(pen, scene);
  expect(commands).toContain('fillRect 208 37 200 8');
  expect(commands).toContain('fillRect 408 31 199 20');
  const { traceEvents } = JSON.parse(chromeTrace(graph, 100)) as { traceEvents: Record<string, unknown>[] };
  expect(traceEvents.filter(({ ph }) => ph === 'X').map(({ name, ts, dur }) => [name, ts, dur])).toEqual([
    ['unknown', 1e6, 4e6],
    ['arguments', 1e6, 2e6]
  ]);
});

test('a new attempt has loaded nothing yet', () => {
  const graph = loaded();
  apply(graph, message('delta', { updates: [{ row: 0, state: State.running, worker: 1, started: 6 }] }), 0);
  expect(graph.loading(0)).toBeNaN();
  expect(arrange(graph, WIDE, 1000, 8).bars[0]!.xCall).toBe(600);
});

test('waiting is told apart: for inputs, and for a place', () => {
  const graph = ran(
    [
      [0, 2],
      [3, 4]
    ],
    [[0, 1]]
  );
  expect(readyAt(graph, 1)).toBe(2);
  expect(story(graph, 1, 9)).toEqual([
    '2.0\u00a0s until its inputs were there',
    '1.0\u00a0s in the queue',
    'ran 1.0\u00a0s'
  ]);
});

test('a gap says why nothing was done', () => {
  const graph = ran(
    [
      [0, 2],
      [3, 4]
    ],
    [[0, 1]]
  );
  expect(gapReason(graph, 1).join(' ')).toContain('1 task waited for unknown');
  expect(gapReason(graph, 2.5).join(' ')).toContain('1 task queued');
  expect(gapReason(graph, 3.5).join(' ')).toContain('nothing else was to do while 1 task ran');
  expect(gapReason(graph, 5)).toEqual(['nothing was to do']);
});

test('a gap says which process was not there, what was all taken, and when memory was short', () => {
  const graph = ran([
    [0, 2],
    [3, 4]
  ]);
  graph.workers.set(4, { pid: 4, state: 'dead', since: 1, ended: 3, node: 0 });
  expect([0.5, 2.5, 3.5].map(at => gapReason(graph, at, 4)[0])).toEqual([
    'this process had not begun yet',
    '1 task queued:',
    'this process had ended'
  ]);
  graph.resources = { total: { CPU: 2 }, available: { CPU: 2 } };
  graph.nodes.set(0, machineLabel('here', { cpus: 2, memory: 1000, store: 500 }));
  const first = sample(1, { load: 1, cpus: 1, memory: 100 });
  graph.samples = [first, { ...first, at: 2.2, cpus: 2 }, { ...first, at: 2.7, cpus: 2, memory: 990 }];
  expect(gapReason(graph, 1.5)[1]).toContain('what they ask for was taken by the 1');
  expect(gapReason(graph, 2.5)[1]).toBe('what they ask for was not free');
  graph.finished[0] = 2.9;
  expect(gapReason(graph, 2.5)[1]).toBe('all CPUs were taken by the 1 that ran');
  expect(gapReason(graph, 2.8)[1]).toBe('memory was nearly full: 990\u00a0B of 1\u00a0kB');
});

describe('the scale', () => {
  test('ticks are round numbers, down to the microsecond', () => {
    expect(ticks({ t0: 0, pxPerS: 90 }, 270).at).toEqual([0, 1, 2, 3]);
    const { at, step } = ticks({ t0: 12.345678, pxPerS: 9e7 / 2 }, 180);
    expect(tickLabel(at[0]!, step)).toBe('12,345,678\u00a0µs');
    expect(tickLabel(0.25, 0.05)).toBe('250\u00a0ms');
    expect(tickLabel(ticks({ t0: -0.5, pxPerS: 90 }, 90).at[0]!, 1)).toBe('0\u00a0s');
  });

  test('zooming keeps the time under the pointer', () => {
    const scale = zoomTime({ t0: 3, pxPerS: 50 }, 200, 1000);
    expect(scale.t0 + 200 / scale.pxPerS).toBeCloseTo(7, 9);
  });

  test('fitting shows all of it', () => {
    const { t0, pxPerS } = fitTime([2, 6], 400);
    expect(t0).toBeLessThan(2);
    expect(t0 + 400 / pxPerS).toBeGreaterThan(6);
  });
});

test('a trace for Chrome has every task once, in microseconds, on its worker', () => {
  const graph = new TaskGraph();
  play(graph, quickstart());
  const { traceEvents } = JSON.parse(chromeTrace(graph, 100)) as { traceEvents: Record<string, unknown>[] };
  const tasks = traceEvents.filter(({ ph }) => ph === 'X');
  const row = tasks.find(({ name }) => name === 'simulate')!;
  expect(tasks).toHaveLength(
    [...Array(graph.n).keys()].filter(r => spanOf(graph, r, 100) && graph.name(r) !== 'put').length
  );
  const at = (row['args'] as { row: number }).row;
  expect(row['ts']).toBeCloseTo(graph.started[at]! * 1e6);
  expect(traceEvents.filter(({ name }) => name === 'thread_name').map(({ tid }) => tid)).toContain(row['tid']);
});

test('the name of a lane has room for a process number and what became of it', () => {
  const graph = ran([[1, 2]]);
  graph.workers.set(1, workerLabel(4_194_304, 'dead'));
  const scale = { t0: 0, pxPerS: 100 };
  const view = { width: 900, height: 300 };
  const scene = {
    graph,
    theme: makeTheme(() => '', false),
    arranged: arrange(graph, scale, 790, 10),
    scale,
    view,
    top: 0,
    now: 10,
    hovered: -1,
    selected: -1,
    brush: null,
    lit: null
  };
  const svg = svgOf(900, 300, pen => drawTimeline(pen, scene));
  expect(svg).toContain('>worker</text>');
  expect(svg).toContain('>4194304, ended</text>');
});

test('the picture as SVG: names of tasks are text, whatever they are', () => {
  const graph = new TaskGraph();
  play(graph, mapReduce(40, 0.5, 4));
  graph.functions.set(graph.fn[5]!, '<script>&"');
  const theme = makeTheme(() => '', false);
  const scale = fitTime(extent(graph, 60), 800);
  const view = { width: 900, height: 300 };
  const arranged = arrange(graph, scale, 790, 60);
  const scene = {
    graph,
    theme,
    arranged,
    scale,
    view,
    top: 0,
    now: 60,
    hovered: -1,
    selected: 3,
    brush: [1, 2] as const,
    lit: null
  };
  const svg = svgOf(900, 300, pen => drawTimeline(pen, scene));
  expect(svg).toMatch(/^<svg xmlns/);
  expect(svg).not.toContain('<script');
  expect(svg).not.toMatch(/NaN|undefined/);
});
