// The box to which an arrow key leads: along the flow from box to box by dependency and on to the next cell's, across
// the flow to the neighbour.

import type { TaskGraph } from '../model/graph';
import type { LayeredLayout } from './layered';
import type { Direction } from './metrics';

/** The next box from `box`, or NONE. */
export function walk(
  graph: TaskGraph,
  layout: LayeredLayout,
  showsGroups: boolean,
  box: number,
  axis: Direction,
  step: 1 | -1
): number {
  if (axis !== layout.direction) {
    return layout.neighbour(box, step);
  }
  const candidates = showsGroups ? groupSteps(graph, box, step) : rowSteps(graph, box, step);
  const away = (other: number) => Math.abs(layout.slot[other]! - layout.slot[box]!);
  return candidates.sort((a, b) => away(a) - away(b) || a - b)[0] ?? layout.beyond(box, step);
}

function rowSteps(graph: TaskGraph, row: number, step: 1 | -1): number[] {
  if (step > 0) {
    return [...graph.dependents(row), ...graph.children(row)];
  }
  const dependencies = [...graph.dependencies(row)];
  return dependencies.length
    ? dependencies
    : [graph.parent[row]! - 1, graph.previousCall[row]!].filter(other => other >= 0);
}

function groupSteps({ groups }: TaskGraph, group: number, step: 1 | -1): number[] {
  return groups.edges
    .filter(({ source, target }) => source !== target && (step > 0 ? source : target) === group)
    .map(({ source, target }) => (step > 0 ? target : source));
}
