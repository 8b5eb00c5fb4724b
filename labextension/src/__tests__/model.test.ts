import { describe, expect, test } from 'vitest';
import { mapReduce, parameterServer, random, recursion } from '../../dev/trace';
import { TaskGraph, isEnded } from '../model';
import { Kind, N_STATES, ProtocolError, State } from '../protocol';
import { message, play } from './helpers';

function graphOf(...messages: ReturnType<typeof message>[]): TaskGraph {
  const graph = new TaskGraph();
  messages.forEach((m, i) => graph.apply(m, i));
  return graph;
}

describe('rows', () => {
  test('are born waiting, objects finished', () => {
    const graph = graphOf(message('snapshot', { rows: [{}, { kind: Kind.object }] }));
    expect([...graph.state.subarray(0, graph.n)]).toEqual([State.waiting, State.finished]);
  });

  test('follow updates', () => {
    const graph = graphOf(
      message('snapshot', { rows: [{ fn: 7 }], header: { functions: [[7, 'add']] } }),
      message('delta', { updates: [{ row: 0, state: State.running, worker: 3, started: 2 }] }),
      message('delta', { updates: [{ row: 0, state: State.finished, worker: 3, started: 2, finished: 2.5, size: 80 }] })
    );
    expect(graph.name(0)).toBe('add');
    expect(graph.duration(0, 99)).toBe(0.5);
    expect(graph.size[0]).toBe(80);
    expect(graph.changed[0]).toBe(2);
  });

  test('that run last until now', () => {
    const graph = graphOf(message('snapshot', { rows: [{}], updates: [{ row: 0, state: State.running, started: 2 }] }));
    expect(graph.duration(0, 5)).toBe(3);
  });

  test('survive growth of the columns', () => {
    const graph = graphOf(message('snapshot', { rows: [{ fn: 1 }] }));
    for (let i = 0; i < 6; i++) {
      graph.apply(message('delta', { rows: Array.from({ length: 700 }, () => ({ fn: 2 })) }), 0);
    }
    expect(graph.n).toBe(4201);
    expect([graph.fn[0], graph.fn[4200]]).toEqual([1, 2]);
    expect(graph.started[4200]).toBeNaN();
  });
});

describe('a snapshot', () => {
  test('forgets everything before it', () => {
    const graph = graphOf(
      message('snapshot', { rows: [{}, {}], edges: [[0, 1]] }),
      message('snapshot', { rows: [{}], header: { session: 'new' } })
    );
    expect([graph.n, graph.nEdges, graph.epoch, graph.session]).toEqual([1, 0, 2, 'new']);
    expect([...graph.dependents(0)]).toEqual([]);
  });
});

test.each([
  ['an update of an unknown row', { updates: [{ row: 5, state: 2 }] }],
  ['an edge to an unknown row', { edges: [[0, 5]] as [number, number][] }],
  ['an unknown state', { updates: [{ row: 0, state: 9 }] }],
  ['an unknown parent', { rows: [{ parent: 9 }] }]
])('%s is refused and changes nothing', (_, parts) => {
  const graph = graphOf(message('snapshot', { rows: [{}] }));
  expect(() => graph.apply(message('delta', { header: { now: 77 }, ...parts }), 0)).toThrow(ProtocolError);
  expect([graph.n, graph.nEdges, graph.now, graph.state[0]]).toEqual([1, 0, 1, State.waiting]);
});

describe('edges', () => {
  const graph = graphOf(message('snapshot', { rows: [{}, {}, {}, { parent: 2 }, {}], edges: [[0, 2], [1, 2], [2, 4]] }));

  test('lead both ways', () => {
    expect([...graph.dependencies(2)].sort()).toEqual([0, 1]);
    expect([...graph.dependents(0)]).toEqual([2]);
    expect([...graph.children(2)]).toEqual([3]);
  });

  test('make relatives, along dependencies and nesting', () => {
    expect([...graph.relatives(0, 100)].sort()).toEqual([0, 2, 3, 4]);
    expect([...graph.relatives(3, 100)].sort()).toEqual([0, 1, 2, 3]);
  });
});

test('calls of an actor follow one another', () => {
  const graph = graphOf(
    message('snapshot', {
      rows: [
        { actor: 0, kind: Kind.actor_creation },
        { actor: 0, kind: Kind.actor_call },
        { actor: 1, kind: Kind.actor_creation },
        { actor: 0, kind: Kind.actor_call }
      ]
    })
  );
  expect([...graph.previousCall.subarray(0, 4)]).toEqual([-1, 0, -1, 1]);
  expect(graph.calls.get(0)).toEqual({ first: 0, last: 3, n: 2, ended: 0 });
});

/** Everything that is kept up by increments, counted again from the rows. */
function expectConsistent(graph: TaskGraph): void {
  const { groups } = graph;
  const counts = groups.list.map(() => new Uint32Array(N_STATES));
  const timed = groups.list.map(() => 0);
  for (let row = 0; row < graph.n; row++) {
    counts[graph.group[row]!]![graph.state[row]!]!++;
    timed[graph.group[row]!]! += Number(!Number.isNaN(graph.finished[row]! - graph.started[row]!));
  }
  groups.list.forEach((group, i) => {
    expect(group.counts).toEqual(counts[i]);
    expect(group.nTimed).toBe(timed[i]);
    const inWaffle = new Uint32Array(N_STATES);
    group.waffle.counts.forEach((n, at) => {
      inWaffle[at % N_STATES]! += n;
    });
    expect(inWaffle).toEqual(counts[i]);
  });
  expect(groups.edges.reduce((sum, edge) => sum + edge.n, 0)).toBe(
    graph.nEdges + graph.parent.subarray(0, graph.n).reduce((sum, parent) => sum + Number(parent > 0), 0)
  );
}

test.each([
  ['a map and a reduction', mapReduce(700, 0.05, 8)],
  ['actors', parameterServer(6, 3)],
  ['recursion', recursion(7)]
])('groups agree with their rows at every moment: %s', (_, scenario) => {
  const graph = new TaskGraph();
  for (const until of [0.3, 1.1, 1e6]) {
    play(graph, scenario, until, 0.1);
    expectConsistent(graph);
  }
  expect([...graph.state.subarray(0, graph.n)].every(isEnded)).toBe(true);
});

test('rows that change back and forth keep the groups right', () => {
  const next = random(5);
  const graph = graphOf(message('snapshot', { rows: Array.from({ length: 300 }, (_, i) => ({ fn: i % 3 })) }));
  for (let i = 0; i < 200; i++) {
    const started = next() < 0.5 ? NaN : next();
    const row = Math.floor(next() * 300);
    graph.apply(message('delta', { updates: [{ row, state: Math.floor(next() * N_STATES), started, finished: started + next() }] }), i);
  }
  expectConsistent(graph);
});

test('tasks a second are those that ended over the last two seconds', () => {
  const graph = new TaskGraph();
  for (let now = 0; now <= 10; now += 0.5) {
    const counts = { waiting: 0, ready: 0, running: 1, finished: now <= 6 ? 0 : (now - 6) * 100, failed: 0, cancelled: 0 };
    graph.apply(message(now === 0 ? 'snapshot' : 'delta', { header: { now, counts } }), 0);
  }
  expect(graph.rate()).toBe(100);
});

test('the clock shows the present stretch of work, and stops with it', () => {
  const counts = (running: number, finished: number) => ({ waiting: 0, ready: 0, running, finished, failed: 0, cancelled: 0 });
  const graph = graphOf(message('snapshot', { header: { now: 100 } }));
  graph.apply(message('delta', { header: { now: 110, counts: counts(2, 0) } }), 0);
  expect(graph.elapsed(3000)).toBe(3);
  graph.apply(message('delta', { header: { now: 115, counts: counts(0, 2) } }), 5000);
  expect(graph.elapsed(60_000)).toBe(5);
  graph.apply(message('delta', { header: { now: 200, counts: counts(1, 2) } }), 90_000);
  expect(graph.elapsed(91_000)).toBe(1);
  graph.apply(message('delta', { header: { now: 203, counts: counts(0, 3) } }), 93_000);
  graph.apply(message('delta', { header: { now: 204, counts: counts(1, 3) } }), 94_000);
  expect(graph.elapsed(94_000)).toBe(4); // the next round of a loop
});

test('the clock of who joins later shows the last stretch of work too', () => {
  const task = (row: number, started: number, finished: number) => ({ row, state: State.finished, started, finished });
  const rows = [{ submitted: 10 }, { kind: Kind.object, submitted: 100 }, { submitted: 200 }, { submitted: 203 }];
  const updates = [task(0, 10, 90), task(2, 200, 202), task(3, 203, 204)];
  const graph = graphOf(message('snapshot', { rows, updates, header: { now: 300 } }));
  expect(graph.elapsed(60_000)).toBe(4);
});

test('objects are called by how they came to be', () => {
  const functions: [number, string][] = ['put', 'argument', 'item', 'load'].map((name, i) => [i, name]);
  const graph = graphOf(message('snapshot', { rows: functions.map(([fn]) => ({ fn, kind: fn < 3 ? Kind.object : Kind.task })), header: { functions } }));
  expect([0, 1, 2, 3].map(row => graph.name(row))).toEqual(['put', 'argument', 'item', 'load']);
});
