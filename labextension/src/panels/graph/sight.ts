// Computes what there is to see of the graph: its bounds, the front of the work, the lit boxes. Pure.

import { CAPTION, groupNeighbours, MARGIN } from '../../draw/groups';
import type { LayeredLayout } from '../../layout/layered';
import type { Rect } from '../../layout/metrics';
import type { TaskGraph } from '../../model/graph';
import { NONE } from '../../model/rows';
import { State } from '../../protocol/messages';

const RELATIVES_MAX = 3000;

/** The box nearest to the middle of a view, or NONE. */
export function nearest(layout: LayeredLayout, view: Rect): number {
  const [middleX, middleY] = [view.x + view.width / 2, view.y + view.height / 2];
  let [found, least] = [NONE, Infinity];
  layout.visible(view, box => {
    const { x, y, width, height } = layout.rect(box);
    const away = Math.hypot(x + width / 2 - middleX, y + height / 2 - middleY);
    if (away < least) {
      [found, least] = [box, away];
    }
  });
  return found;
}

/** Where along the flow work goes on: at the newest running box, else at the newest box. */
export function frontOf(graph: TaskGraph, layout: LayeredLayout, showsGroups: boolean): number {
  const starts = layout.starts();
  const isRunning = showsGroups
    ? (box: number) => graph.groups.list[box]!.counts[State.running]! > 0
    : (box: number) => graph.state[box] === State.running;
  let newest = layout.n - 1;
  while (newest > 0 && !isRunning(newest)) {
    newest--;
  }
  return layout.along(isRunning(newest) ? newest : layout.n - 1, starts) + layout.sizeAlong / 2;
}

/** The bounds of all boxes, and of the areas of machines behind them. */
export function boundsOf(graph: TaskGraph, layout: LayeredLayout, showsGroups: boolean): Rect {
  const bounds = layout.bounds();
  if (!showsGroups || !graph.byMachine) {
    return bounds;
  }
  const { x, y, width, height } = bounds;
  return { x: x - MARGIN, y: y - MARGIN - CAPTION, width: width + 2 * MARGIN, height: height + 2 * MARGIN + CAPTION };
}

/** The bounds of one group's rows in the picture of all rows. */
export function groupBounds(graph: TaskGraph, layout: LayeredLayout, group: number): Rect {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let row = 0; row < layout.n; row++) {
    if (graph.group[row] === group) {
      const { x, y, width, height } = layout.rect(row);
      [left, top] = [Math.min(left, x), Math.min(top, y)];
      [right, bottom] = [Math.max(right, x + width), Math.max(bottom, y + height)];
    }
  }
  return left < right ? { x: left, y: top, width: right - left, height: bottom - top } : layout.bounds();
}

export interface Wanted {
  hovered: number;
  stateFilter: State | null;
  brush: readonly [number, number] | null;
  groupFilter: number;
  showsGroups: boolean;
}

/** Which boxes are lit: relatives of the box under the pointer, or those that a filter selects; null: all. */
export function litBoxes(
  graph: TaskGraph,
  { hovered, stateFilter, brush, groupFilter, showsGroups }: Wanted
): ((box: number) => boolean) | null {
  if (hovered !== NONE) {
    const near = showsGroups ? groupNeighbours({ graph }, hovered) : graph.relatives(hovered, RELATIVES_MAX);
    return near.size > 1 ? box => near.has(box) : null;
  }
  if (stateFilter !== null) {
    return showsGroups
      ? box => graph.groups.list[box]!.counts[stateFilter]! > 0
      : row => graph.state[row] === stateFilter;
  }
  if (brush) {
    const groups = showsGroups ? graph.seenIn(brush, row => graph.group[row]!) : null;
    return box => (groups ? groups.has(box) : graph.ranIn(box, brush));
  }
  return groupFilter !== NONE && !showsGroups ? row => graph.group[row] === groupFilter : null;
}
