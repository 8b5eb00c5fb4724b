import { describe, expect, test } from 'vitest';
import { mapReduce, parameterServer, quickstart } from '../../../../dev/trace';
import { apply } from '../../../model/apply';
import { TaskGraph } from '../../../model/graph';
import { NEWEST, search, sorted } from '../../../model/views/table';
import { type TableName, tableOf } from '../../../model/views/tables';
import { State } from '../../../protocol/messages';
import { message, play, workerLabel } from '../../helpers';

function graphOf(): TaskGraph {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [
        { fn: 1, cell: 1 },
        { fn: 2, cell: 2 },
        { fn: 1, cell: 2 }
      ],
      updates: [
        { row: 0, state: State.finished, worker: 1, started: 1, finished: 4, size: 10 },
        { row: 1, state: State.failed, worker: 2, started: 1, finished: 2, size: 0 }
      ],
      header: {
        functions: [
          [1, 'simulate'],
          [2, 'plot']
        ],
        cells: [
          [1, { label: 'In [1]', id: 'a' }],
          [2, { label: 'In [2]', id: 'b' }]
        ],
        workers: [
          [1, workerLabel(71, 'idle')],
          [2, workerLabel(72, 'idle')]
        ]
      }
    }),
    0
  );
  return graph;
}

const table = (graph: TaskGraph, name: TableName = 'tasks') => tableOf(graph, name, 10, null, null);

/** The table as it is read. */
function texts(graph: TaskGraph, name: TableName, order = NEWEST): string[][] {
  const made = table(graph, name);
  return sorted(made.items, made.columns, order).map(item =>
    made.columns.map(({ text }) => text(item).replaceAll('\u00a0', ' '))
  );
}

test('tasks, the latest first', () => {
  expect(texts(graphOf(), 'tasks').map(([name, cell, state, , , , ran]) => [name, cell, state, ran])).toEqual([
    ['simulate', 'In [2]', 'waiting', ''],
    ['plot', 'In [2]', 'failed', '1.0 s'],
    ['simulate', 'In [1]', 'finished', '3.0 s']
  ]);
});

test('by time that was taken; what has none is last both ways', () => {
  const made = table(graphOf());
  expect(sorted(made.items, made.columns, { key: 'ran', isDescending: true })).toEqual([0, 1, 2]);
  expect(sorted(made.items, made.columns, { key: 'ran', isDescending: false })).toEqual([1, 0, 2]);
});

test('by name, in the order of the alphabet', () => {
  const made = table(graphOf());
  expect(sorted(made.items, made.columns, { key: 'name', isDescending: false })).toEqual([1, 0, 2]);
});

test('every word of a search must be found: in the name, the cell or the state', () => {
  const made = table(graphOf());
  expect(search(made, 'SIM')).toEqual([0, 2]);
  expect(search(made, 'sim in [2]')).toEqual([2]);
  expect(search(made, 'failed')).toEqual([1]);
  expect(search(made, '  ')).toEqual([0, 1, 2]);
  expect(search(made, 'nothing like it')).toEqual([]);
});

test('a state and a stretch of time leave out the others', () => {
  expect(tableOf(graphOf(), 'tasks', 10, null, State.failed).items).toEqual([1]);
  expect(tableOf(graphOf(), 'tasks', 10, [3, 5], null).items).toEqual([0]);
  expect(tableOf(graphOf(), 'workers', 10, [3, 5], null).items).toEqual([1]);
  expect(graphOf().seenIn([3, 5], row => row)).toEqual(new Set([0]));
});

test('actors that were asked for something in a stretch of time', () => {
  const graph = new TaskGraph();
  play(graph, parameterServer());
  const busy = [...Array(graph.n).keys()]
    .filter(row => graph.actor[row] && graph.ranIn(row, [0, 0.1]))
    .map(row => graph.actor[row]! - 1);
  expect(tableOf(graph, 'actors', 10, [0, 0.1], null).items).toEqual(
    [...graph.actors.keys()].filter(actor => busy.includes(actor))
  );
  expect(tableOf(graph, 'actors', 10, [graph.now + 1, graph.now + 2], null).items).toEqual([]);
});

test('objects are what takes room', () => {
  expect(texts(graphOf(), 'objects')).toEqual([['simulate', 'In [1]', '10 B', '4.0 s', '0']]);
});

test('workers: what they run, and what they have done', () => {
  expect(texts(graphOf(), 'workers', { key: 'pid', isDescending: false })).toEqual([
    ['71', 'idle', '', '1', '3.0 s'],
    ['72', 'idle', '', '1', '1.0 s']
  ]);
});

test('a worker that is gone has ended: it was idle for too long, as a rule', () => {
  const graph = graphOf();
  graph.workers.set(2, workerLabel(72, 'dead'));
  expect(texts(graph, 'workers', { key: 'pid', isDescending: false }).map(([pid, state]) => [pid, state])).toEqual([
    ['71', 'idle'],
    ['72', 'ended']
  ]);
  expect(search(table(graph, 'workers'), 'ended')).toEqual([2]);
});

describe.each([
  ['quickstart', quickstart()],
  ['actors', parameterServer()],
  ['many', mapReduce(400, 0.02, 8)]
] as const)('%s', (_, scenario) => {
  const graph = new TaskGraph();
  play(graph, scenario, 1.5);

  test.each(['tasks', 'objects', 'actors', 'workers'] as const)(
    'every cell of %s can be read, every column sorted',
    name => {
      const made = table(graph, name);
      for (const column of made.columns) {
        const order = sorted(made.items, made.columns, { key: column.key, isDescending: true });
        expect([...order].sort((a, b) => a - b)).toEqual([...made.items].sort((a, b) => a - b));
        for (const item of order) {
          expect(column.text(item)).not.toMatch(/NaN|undefined/);
        }
      }
      for (const item of made.items) {
        expect(made.row(item)).toBeLessThan(graph.n);
        expect(made.words(item).every(word => typeof word === 'string')).toBe(true);
      }
    }
  );
});

test('an actor shows the call that it works on', () => {
  const graph = new TaskGraph();
  play(graph, parameterServer(), 1.5);
  const made = table(graph, 'actors');
  const working = made.items.filter(actor => graph.state[made.row(actor)] === State.running);
  expect(working.length).toBeGreaterThan(0);
  for (const actor of working) {
    expect(made.columns.find(({ key }) => key === 'now')!.text(actor)).toBe(graph.name(made.row(actor)));
  }
});
