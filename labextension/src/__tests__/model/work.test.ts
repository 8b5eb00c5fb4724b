import { expect, test } from 'vitest';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { workOf } from '../../model/work';
import { Kind, State } from '../../protocol/messages';
import { message } from '../helpers';

const cells: [number, { label: string; id: string }][] = [1, 2, 3].map(n => [n, { label: `In [${n}]`, id: '' }]);
const done = (row: number, started: number, finished: number) => ({ row, state: State.finished, started, finished });

function graphOf(): TaskGraph {
  const graph = new TaskGraph();
  const rows = [
    { cell: 1, submitted: 10 },
    { cell: 2, submitted: 20 },
    { cell: 2, submitted: 26 },
    { cell: 3, kind: Kind.object, submitted: 40 }
  ];
  apply(graph, message('snapshot', { rows, updates: [done(0, 10, 19)], header: { now: 30, cells } }), 0);
  return graph;
}

test('the clock is that of the latest run of a cell that is under way, from its first task on', () => {
  expect(workOf(graphOf(), 30)).toEqual({ label: 'In [2]', seconds: 10, isOpen: true });
});

test('it stops with the last task, whatever is put afterwards and however late one looks', () => {
  const graph = graphOf();
  apply(graph, message('delta', { updates: [done(2, 26, 27), done(1, 20, 28.5)], header: { now: 60 } }), 0);
  expect(workOf(graph, 1000)).toEqual({ label: 'In [2]', seconds: 8.5, isOpen: false });
});

test('work that was begun before goes before what has ended since', () => {
  const graph = graphOf();
  apply(
    graph,
    message('delta', { rows: [{ cell: 3, submitted: 50 }], updates: [done(4, 50, 51)], header: { now: 60 } }),
    0
  );
  expect(workOf(graph, 60).label).toBe('In [2]');
  apply(graph, message('delta', { updates: [done(1, 20, 70), done(2, 26, 70)], header: { now: 70 } }), 0);
  expect(workOf(graph, 99)).toEqual({ label: 'In [3]', seconds: 1, isOpen: false });
});

test('without work there is none', () => {
  expect(workOf(new TaskGraph(), 5)).toEqual({ label: '', seconds: 0, isOpen: false });
});
