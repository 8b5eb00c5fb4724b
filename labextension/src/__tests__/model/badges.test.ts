import { expect, test } from 'vitest';
import { apply } from '../../model/apply';
import { badgesOf } from '../../model/badges';
import { TaskGraph } from '../../model/graph';
import { Kind, State } from '../../protocol/messages';
import { message } from '../helpers';

function graphWith(states: [number, State][]): TaskGraph {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [...states.map(([cell], i) => ({ cell, fn: i % 2 })), { cell: 2, kind: Kind.object }],
      updates: states.map(([, state], row) => ({ row, state })),
      header: {
        cells: [
          [1, { label: 'In [1]', id: 'a' }],
          [2, { label: 'In [2]', id: 'b' }],
          [3, { label: 'In [3]', id: 'a' }],
          [4, { label: '', id: '' }]
        ]
      }
    }),
    0
  );
  return graph;
}

test('a cell shows what matters most of its latest run, and all in words', () => {
  const badges = badgesOf(
    graphWith([
      [1, State.failed],
      [3, State.finished],
      [3, State.running],
      [3, State.retrying],
      [2, State.finished],
      [2, State.failed],
      [4, State.failed]
    ])
  );
  expect([...badges.keys()].sort()).toEqual(['a', 'b']);
  expect(badges.get('a')).toMatchObject({
    state: State.running,
    text: '1',
    title: 'Tasks of this cell: 1 running, 1 queued, 1 finished'
  });
  expect(badges.get('a')!.share).toBeCloseTo(1 / 3);
  expect(badges.get('b')).toMatchObject({ state: State.failed, text: '1', share: 1 });
});

test('a cell without tasks has none', () => {
  expect(badgesOf(graphWith([])).size).toBe(0);
});
