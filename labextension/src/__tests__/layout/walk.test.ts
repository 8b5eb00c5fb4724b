import { expect, test } from 'vitest';
import { GroupArrangement, TaskArrangement } from '../../layout/arrange';
import { walk } from '../../layout/walk';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { NONE } from '../../model/rows';
import { message } from '../helpers';

const graph = new TaskGraph();
apply(
  graph,
  message('snapshot', {
    rows: [{ fn: 1 }, { fn: 1 }, { fn: 2 }, { fn: 3 }, { fn: 4, parent: 3 }],
    edges: [
      [0, 2],
      [1, 2],
      [2, 3]
    ]
  }),
  0
);

test('arrows along the flow follow dependencies and nesting, across it neighbours', () => {
  const arrangement = new TaskArrangement(graph);
  arrangement.update('down');
  const go = (from: number, axis: 'down' | 'right', step: 1 | -1) =>
    walk(graph, arrangement.layout, false, from, axis, step);
  expect(go(0, 'down', 1)).toBe(2);
  expect(go(2, 'down', -1)).toBe(0);
  expect(go(0, 'right', 1)).toBe(1);
  expect(go(1, 'right', 1)).toBe(NONE);
  expect(go(3, 'down', 1)).toBe(4);
  expect(go(4, 'down', -1)).toBe(3);
  expect(go(4, 'down', 1)).toBe(NONE);
});

test('and from group to group', () => {
  const arrangement = new GroupArrangement(graph);
  arrangement.update('right');
  expect(walk(graph, arrangement.layout, true, 0, 'right', 1)).toBe(1);
  expect(walk(graph, arrangement.layout, true, 1, 'right', -1)).toBe(0);
});
