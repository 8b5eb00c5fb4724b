// The clock of the header: the duration of the current work, or of the last. Pure.
//
// Work is a run of a cell: from the submission of its first task to the end of its last one, or to now while one is
// open. If several are under way it is the latest of them, if none is, the latest there was.

import { Kind } from '../protocol/messages';
import type { TaskGraph } from './graph';
import { perVersion } from './per_version';
import { NONE } from './rows';

export interface Work {
  /** The cell as the notebook shows it; '' where there is none. */
  label: string;
  seconds: number;
  isOpen: boolean;
}

export function workOf(graph: TaskGraph, now: number): Work {
  const cell = latestCell(graph);
  let [from, isOpen] = [Infinity, false];
  for (const group of graph.groups.list) {
    const submitted = graph.submitted[group.firstRow]!; // rows come in the order of their submission
    if (group.cell === cell && group.kind !== Kind.object && group.n) {
      from = submitted < from ? submitted : from;
      isOpen ||= group.n > group.ended;
    }
  }
  const end = isOpen ? now : lastEnd(graph, cell);
  return { label: graph.cells.get(cell)?.label ?? '', seconds: end > from ? end - from : 0, isOpen };
}

/** When the last task of a cell ended. Looked up only when nothing goes on. */
const lastEnd = perVersion((graph, wanted: number) => {
  let end = -Infinity;
  const { n, cell, kind, finished } = graph;
  for (let row = 0; row < n; row++) {
    if (cell[row] === wanted && kind[row] !== Kind.object && finished[row]! > end) {
      end = finished[row]!;
    }
  }
  return end;
});

function latestCell({ groups: { list } }: TaskGraph): number {
  let [cell, first, isOpen] = [NONE, NONE, false];
  for (const group of list) {
    const open = group.n > group.ended;
    if (group.kind !== Kind.object && group.n && (open === isOpen ? group.firstRow > first : open)) {
      [cell, first, isOpen] = [group.cell, group.firstRow, open];
    }
  }
  return cell;
}
