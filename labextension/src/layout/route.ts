// Routes an edge past the boxes that lie between its ends.
//
// Empty channels separate layers and their lines of boxes. A route crosses each line straight at a free place and turns
// in the channels only, so no edge is drawn behind a foreign box. Places are chosen one after the other, each nearest
// to the direct way from the last.

import type { Band } from './bands';
import type { LayeredLayout } from './layered';

/** The control distance of a curve that turns round; it reaches three quarters of that into the channel. */
export const TURN_REACH = 30;

/** A point in the flow's own coordinates. */
export interface Stop {
  along: number;
  across: number;
}

/** A curve between two stops; the signs say whether it leaves and arrives with the flow (1) or against it (-1). */
export interface Bend {
  from: Stop;
  to: Stop;
  leaves: 1 | -1;
  arrives: 1 | -1;
}

/** With more lines in between, searching free places in each frame costs too much. */
const OBSTACLES_MAX = 200;

/** The bends of the route between two boxes; it is straight between them. */
export function route(layout: LayeredLayout, starts: Float64Array, source: number, target: number): Bend[] {
  const { sizeAlong, sizeAcross } = layout;
  const begin: Stop = { along: layout.along(source, starts) + sizeAlong, across: middle(layout, source) };
  const end: Stop = { along: layout.along(target, starts), across: middle(layout, target) };
  const isForward = end.along >= begin.along;
  const sign = isForward ? 1 : -1;
  const obstacles = isForward ? between(layout, starts, source, target) : back(layout, starts, source, target);
  if (obstacles.length > OBSTACLES_MAX) {
    obstacles.length = 0;
  }
  const bends: Bend[] = [];
  let from = begin;
  obstacles.forEach(({ along, length, slots }, i) => {
    const wish = from.across + (end.across - from.across) / (obstacles.length - i + 1);
    const across = freePlace(slots, layout.slotPitch, sizeAcross, wish);
    const [enter, leave] = isForward ? [along, along + length] : [along + length, along];
    bends.push({ from, to: { along: enter, across }, leaves: i ? sign : 1, arrives: sign });
    from = { along: leave, across };
  });
  bends.push({ from, to: end, leaves: bends.length ? sign : 1, arrives: 1 });
  return bends;
}

/** Boxes side by side that a route must pass: where they begin along the flow, their length, and their slots. */
interface Obstacle {
  along: number;
  length: number;
  slots: readonly number[];
}

function middle(layout: LayeredLayout, box: number): number {
  return layout.slot[box]! * layout.slotPitch + layout.sizeAcross / 2;
}

/** The obstacles behind the source and before the target. */
function between(layout: LayeredLayout, starts: Float64Array, source: number, target: number): Obstacle[] {
  const [from, to] = [layout.bandOf(source), layout.bandOf(target)];
  const [depth, line] = [layout.depth[source]!, layout.line[source]! + 1];
  const [lastDepth, endLine] = [layout.depth[target]!, layout.line[target]!];
  if (from === to) {
    return linesFrom(layout, starts, from, depth, line, lastDepth, endLine);
  }
  if (to.shelf <= from.shelf || to.shelf - from.shelf > OBSTACLES_MAX) {
    return [];
  }
  const obstacles = [...linesFrom(layout, starts, from, depth, line), ...remainder(layout, from)];
  for (let shelf = from.shelf + 1; shelf < to.shelf; shelf++) {
    const { bands, begin, length } = layout.shelves[shelf]!;
    obstacles.push(
      ...(bands.length > 1
        ? [{ along: begin, length, slots: columns(layout, shelf) }]
        : linesFrom(layout, starts, bands[0]!))
    );
  }
  obstacles.push(...linesFrom(layout, starts, to, 0, 0, lastDepth, endLine));
  return obstacles;
}

/** The lines from the source's back to the target's, both included: the route goes round both ends. */
function back(layout: LayeredLayout, starts: Float64Array, source: number, target: number): Obstacle[] {
  const band = layout.bandOf(source);
  return band === layout.bandOf(target)
    ? linesFrom(
        layout,
        starts,
        band,
        layout.depth[target],
        layout.line[target],
        layout.depth[source],
        layout.line[source]! + 1
      ).reverse()
    : [];
}

/** The lines of a block from one up to another; blocks beside it are obstacles as well. */
function linesFrom(
  layout: LayeredLayout,
  starts: Float64Array,
  band: Band,
  depth = 0,
  line = 0,
  lastDepth = Infinity,
  endLine = 0
): Obstacle[] {
  const beside = columns(layout, band.shelf, band);
  const obstacles: Obstacle[] = [];
  for (; depth < band.layers.length && depth <= lastDepth && obstacles.length <= OBSTACLES_MAX; depth++, line = 0) {
    const id = band.layers[depth]!;
    const { lines } = layout.layers[id]!;
    for (; line < (depth === lastDepth ? endLine : lines.length); line++) {
      const { slots } = lines[line]!;
      const along = starts[id]! + line * layout.linePitch;
      obstacles.push({ along, length: layout.sizeAlong, slots: beside.length ? merged(slots, beside) : slots });
    }
  }
  return obstacles;
}

/** The boxes of neighbouring blocks behind a block's last line. */
function remainder(layout: LayeredLayout, band: Band): Obstacle[] {
  const { begin, length } = layout.shelves[band.shelf]!;
  const last = band.layers.at(-1)!;
  const end = layout.starts()[last]! + layout.layers[last]!.lines.length * layout.linePitch - layout.metrics.gapLine;
  return end < begin + length
    ? [{ along: end, length: begin + length - end, slots: columns(layout, band.shelf, band) }]
    : [];
}

/** Slots that together cover the blocks of a shelf, one of them excepted. */
function columns(layout: LayeredLayout, shelf: number, except?: Band): number[] {
  const { bands } = layout.shelves[shelf]!;
  const slots: number[] = [];
  for (const band of bands) {
    if (band !== except) {
      for (let slot = band.first; slot < band.last; slot++) {
        slots.push(slot);
      }
      slots.push(band.last);
    }
  }
  return slots;
}

function merged(a: readonly number[], b: readonly number[]): number[] {
  return [...a, ...b].sort((x, y) => x - y);
}

/** The place nearest to the wish at which a line has no box, with as much room on both sides as neighbours have. */
function freePlace(slots: readonly number[], pitch: number, size: number, wish: number): number {
  const room = (pitch - size) / 2;
  let [before, behind] = [wish, wish];
  for (const slot of slots) {
    const begin = slot * pitch - room;
    if (begin < behind && behind < begin + pitch) {
      behind = begin + pitch;
    }
  }
  for (let i = slots.length - 1; i >= 0; i--) {
    const begin = slots[i]! * pitch - room;
    if (begin < before && before < begin + pitch) {
      before = begin;
    }
  }
  return behind - wish <= wish - before ? behind : before;
}
