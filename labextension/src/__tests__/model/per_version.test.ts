import { expect, test } from 'vitest';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { perVersion } from '../../model/per_version';
import { message } from '../helpers';

test('it is computed anew for another version, grouping, argument or graph, and for nothing else', () => {
  const graph = new TaskGraph();
  const seen: [number, string][] = [];
  const rows = perVersion(({ n }, word: string) => seen.push([n, word]));
  apply(graph, message('snapshot', { rows: [{}] }), 0);
  rows(graph, 'a');
  rows(graph, 'a');
  expect(seen).toEqual([[1, 'a']]);
  apply(graph, message('delta', { rows: [{}] }), 0);
  rows(graph, 'a');
  rows(graph, 'b');
  graph.byMachine = true;
  rows(graph, 'b');
  rows(new TaskGraph(), 'b');
  expect(seen.slice(1)).toEqual([
    [2, 'a'],
    [2, 'b'],
    [2, 'b'],
    [0, 'b']
  ]);
});
