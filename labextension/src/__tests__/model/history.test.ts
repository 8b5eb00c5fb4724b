import { expect, test } from 'vitest';
import { mapReduce, parameterServer, quickstart, recursion } from '../../../dev/trace';
import { apply, rewind } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { Moments } from '../../model/history';
import { activity, momentAt, placeOf, stretchesOf } from '../../model/stretches';
import { Kind, State } from '../../protocol/messages';
import { message, play, sample } from '../helpers';

const F = State.finished;

/** Three tasks, the last of which needs the first two; and a put. */
function small(): TaskGraph {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [{ submitted: 1 }, { submitted: 1 }, { submitted: 1.5 }, { kind: Kind.object, submitted: 6 }],
      updates: [
        { row: 0, state: F, worker: 1, started: 2, finished: 3 },
        { row: 1, state: State.failed, worker: 2, started: 2, finished: 4 },
        { row: 2, state: F, worker: 1, started: 5, finished: 6, size: 10 }
      ],
      edges: [
        [0, 2],
        [1, 2]
      ],
      header: { now: 9, counts: { waiting: 0, queued: 0, running: 0, finished: 2, failed: 1, cancelled: 0 } }
    }),
    0
  );
  return graph;
}

/** A moment as states: one for each row that exists. */
function statesAt(graph: TaskGraph, at: number): number[] {
  const past = new TaskGraph();
  apply(past, new Moments(graph).message(at, null), 0);
  return Array.from(past.state.subarray(0, past.n));
}

test.each([
  [0.5, []],
  [1, [State.queued, State.queued]],
  [1.7, [State.queued, State.queued, State.waiting]],
  [2, [State.running, State.running, State.waiting]],
  [3.5, [F, State.running, State.waiting]],
  [4, [F, State.failed, State.queued]],
  [5.5, [F, State.failed, State.running]],
  [6, [F, State.failed, F, F]],
  [99, [F, State.failed, F, F]]
])('at %s the rows are what they were', (at, states) => {
  expect(statesAt(small(), at)).toEqual(states);
});

function content(graph: TaskGraph) {
  const rows = Array.from({ length: graph.n }, (_, row) => [
    graph.name(row),
    graph.state[row],
    graph.worker[row],
    graph.started[row],
    graph.finished[row],
    graph.parent[row],
    [...graph.dependencies(row)].sort((a, b) => a - b)
  ]);
  return { rows, counts: graph.counts, groups: graph.groups.list.map(group => [...group.counts]) };
}

test.each([
  ['quickstart', quickstart],
  ['recursion', recursion]
] as const)('of %s, going forward step by step and jumping show the same', (_, scenario) => {
  const graph = new TaskGraph();
  play(graph, scenario());
  const moments = new Moments(graph);
  const walking = new TaskGraph();
  let before: number | null = null;
  for (let at = -1; at < graph.now + 1; at += graph.now / 17) {
    apply(walking, moments.message(at, before), 0);
    before = at;
    const jumped = new TaskGraph();
    apply(jumped, moments.message(at, null), 0);
    expect(content(walking)).toEqual(content(jumped));
  }
  expect(content(walking)).toEqual(content(graph));
});

test.each([
  ['quickstart', quickstart],
  ['recursion', recursion],
  ['parameter server', parameterServer],
  ['many', () => mapReduce(400, 0.05, 8)]
] as const)('of %s, going back step by step shows what jumping shows', (_, scenario) => {
  const graph = new TaskGraph();
  play(graph, scenario());
  const moments = new Moments(graph);
  const walking = new TaskGraph();
  const begin = graph.now + 1;
  apply(walking, moments.message(begin, null), 0);
  const { epoch } = walking;
  let before = begin;
  // Back, now and then a little forward, to the beginning and to the end again.
  const steps = Array.from({ length: 23 }, (_, i) => graph.now * (1 - i / 20 + (i % 4 === 3 ? 0.08 : 0)));
  for (const at of [...steps, begin]) {
    if (at < before) {
      rewind(walking, moments.rowsAt(at), at);
    }
    apply(walking, moments.message(at, before), 0);
    before = at;
    const jumped = new TaskGraph();
    apply(jumped, moments.message(at, null), 0);
    expect(everything(walking)).toEqual(everything(jumped));
  }
  expect(walking.epoch).toBe(epoch);
});

/** Everything that a graph says, however it got there. */
function everything(graph: TaskGraph) {
  const sums = graph.groups.list.map(({ n, nTimed, seconds, bytes, waffle }) => [
    n,
    nTimed,
    Number(seconds.toFixed(6)) + 0,
    bytes,
    waffle.bucketSize,
    [...waffle.counts]
  ]);
  const rows = Array.from({ length: graph.n }, (_, row) => [
    graph.previousCall[row],
    [...graph.children(row)],
    [...graph.dependents(row)],
    graph.size[row],
    graph.loading(row)
  ]);
  const labels = [graph.functions, graph.cells, graph.actors, graph.workers, graph.nodes].map(map =>
    [...map].sort(([a], [b]) => a - b)
  );
  const edges = graph.groups.edges.map(({ source, target, n }) => [source, target, n].join()).sort();
  const calls = [...graph.calls].sort(([a], [b]) => a - b);
  return { ...content(graph), sums, rowsToo: rows, labels, edges, calls, samples: graph.samples, now: graph.now };
}

test('what the machine did is known up to the moment', () => {
  const graph = small();
  graph.samples = [1, 2, 3].map(at => sample(at, { cpus: at, store: 10 * at }));
  const moments = new Moments(graph);
  const past = new TaskGraph();
  apply(past, moments.message(1.5, null), 0);
  expect([past.samples.length, past.store.used]).toEqual([1, 10]);
  apply(past, moments.message(3, 1.5), 0);
  expect([past.samples.length, past.store.used, past.resourcesAt(2.5).cpus]).toEqual([3, 30, 2]);
});

test('a moment of the past stands still', () => {
  const past = new TaskGraph();
  past.isStill = true;
  apply(past, new Moments(small()).message(2.5, null), 1000);
  expect(past.time(90_000)).toBe(2.5);
  expect(past.duration(0, past.time(90_000))).toBe(0.5);
});

test('workers are there from when they began, and do what they did', () => {
  const graph = small();
  graph.workers.set(1, { pid: 1, state: 'idle', since: 0.5, ended: 7, node: 0 });
  graph.workers.set(2, { pid: 2, state: 'idle', since: 1.8, ended: Number.POSITIVE_INFINITY, node: 0 });
  const at = (moment: number) =>
    Object.fromEntries(new Moments(graph).message(moment, null).header.workers.map(([k, { state }]) => [k, state]));
  expect(at(1)).toEqual({ 1: 'idle' });
  expect(at(3.5)).toEqual({ 1: 'idle', 2: 'busy' });
  expect(at(8)).toEqual({ 1: 'dead', 2: 'idle' });
});

test('pauses are drawn as notches, and every moment of work has its place', () => {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [{ submitted: 0 }, { submitted: 1 }, { submitted: 1000 }],
      updates: [
        { row: 0, state: F, worker: 1, started: 0, finished: 2 },
        { row: 1, state: F, worker: 1, started: 2, finished: 3 },
        { row: 2, state: F, worker: 1, started: 1000, finished: 1001 }
      ],
      header: { now: 1001 }
    }),
    0
  );
  const stretches = stretchesOf(graph, 1001);
  expect(stretches.map(({ from, to }) => [from, to])).toEqual([
    [0, 3],
    [1000, 1001]
  ]);
  expect(stretches[0]!.start).toBe(0);
  expect(stretches[1]!.end).toBeCloseTo(1);
  expect(stretches[1]!.start - stretches[0]!.end).toBeLessThan(0.02);
  for (const at of [0, 0.5, 2.9, 1000.1, 1001]) {
    expect(momentAt(stretches, placeOf(stretches, at))).toBeCloseTo(at, 6);
  }
  expect(momentAt(stretches, placeOf(stretches, 500))).toBeCloseTo(3);
  expect([placeOf([], 5), momentAt([], 0.5)]).toEqual([0, 0]);
  const steps = activity(graph, stretches, 1001, 40);
  expect(steps[0]).toBeCloseTo(1);
  expect(steps.reduce((sum, each) => sum + each, 0)).toBeCloseTo(40 * (4 / 4.05), 0);
});
