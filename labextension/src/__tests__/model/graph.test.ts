import { describe, expect, test } from 'vitest';
import { mapReduce, parameterServer, random, recursion } from '../../../dev/trace';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { isEnded } from '../../model/rows';
import { ProtocolError } from '../../protocol/errors';
import { Kind, N_STATES, State } from '../../protocol/messages';
import { message, play } from '../helpers';

function graphOf(...messages: ReturnType<typeof message>[]): TaskGraph {
  const graph = new TaskGraph();
  messages.forEach((m, i) => apply(graph, m, i));
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
      apply(graph, message('delta', { rows: Array.from({ length: 700 }, () => ({ fn: 2 })) }), 0);
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
  expect(() => apply(graph, message('delta', { header: { now: 77 }, ...parts }), 0)).toThrow(ProtocolError);
  expect([graph.n, graph.nEdges, graph.now, graph.state[0]]).toEqual([1, 0, 1, State.waiting]);
});

describe('edges', () => {
  const graph = graphOf(
    message('snapshot', {
      rows: [{}, {}, {}, { parent: 2 }, {}],
      edges: [
        [0, 2],
        [1, 2],
        [2, 4]
      ]
    })
  );

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

/** Everything that is updated incrementally, counted again from the rows. */
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
    apply(
      graph,
      message('delta', {
        updates: [{ row, state: Math.floor(next() * N_STATES), started, finished: started + next() }]
      }),
      i
    );
  }
  expectConsistent(graph);
});

/** A graph in which these numbers of tasks have ended by these times. */
function ending(...samples: [now: number, finished: number][]): TaskGraph {
  const graph = new TaskGraph();
  samples.forEach(([now, finished], i) => {
    const counts = { waiting: 0, queued: 0, running: 1, finished, failed: 0, cancelled: 0 };
    apply(graph, message(i ? 'delta' : 'snapshot', { header: { now, counts } }), 0);
  });
  return graph;
}

test('tasks a second are those that ended over the last two seconds', () => {
  const times = Array.from({ length: 21 }, (_, i) => i / 2);
  expect(ending(...times.map((now): [number, number] => [now, now <= 6 ? 0 : (now - 6) * 100])).rates.perSecond()).toBe(
    100
  );
});

test('few tasks, or a moment, have no rate', () => {
  expect(ending([0, 0], [0.026, 1]).rates.perSecond()).toBe(0); // one task of 2.8 ms
  expect(ending([0, 0], [1, 9]).rates.perSecond()).toBe(0);
  expect(ending([0, 0], [0.2, 500]).rates.perSecond()).toBe(0);
  expect(ending([0, 0], [0.5, 500]).rates.perSecond()).toBe(1000);
});

test('objects are called by how they came to be', () => {
  const functions: [number, string][] = ['put', 'argument', 'item', 'load'].map((name, i) => [i, name]);
  const graph = graphOf(
    message('snapshot', {
      rows: functions.map(([fn]) => ({ fn, kind: fn < 3 ? Kind.object : Kind.task })),
      header: { functions }
    })
  );
  expect([0, 1, 2, 3].map(row => graph.name(row))).toEqual(['put', 'argument', 'item', 'load']);
});
