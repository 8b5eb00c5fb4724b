// What is computed once for each version of a graph, and kept until the next. Pure.

import type { TaskGraph } from './graph';

/** `compute`, once for each version of a graph, grouping of its rows, and value of what else it takes. */
export function perVersion<T, More extends (string | number | boolean)[]>(
  compute: (graph: TaskGraph, ...more: More) => T
): (graph: TaskGraph, ...more: More) => T {
  const known = new WeakMap<TaskGraph, { key: string; value: T }>();
  return (graph, ...more) => {
    const key = [graph.epoch, graph.version, graph.byMachine, ...more].join(' ');
    let last = known.get(graph);
    if (last?.key !== key) {
      last = { key, value: compute(graph, ...more) };
      known.set(graph, last);
    }
    return last.value;
  };
}
