// The way of an edge past the boxes that lie between its ends.
//
// Layers and their lines of boxes are separated by channels in which nothing lies. So a way crosses each line on its
// road at a free place, straight on, and turns in the channels only: no edge is drawn behind a box that it has nothing
// to do with. Places are chosen one after the other, each nearest to the direct way from the last.

import type { LayeredLayout } from './layout';

/** How far a curve that turns round is drawn out; it reaches three quarters of that into the channel. */
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

/** The bends of the way between two different boxes; from each to the next it goes straight on. */
export function route(layout: LayeredLayout, starts: Float64Array, source: number, target: number): Bend[] {
  const { sizeAlong, sizeAcross } = layout;
  const begin: Stop = { along: layout.along(source, starts) + sizeAlong, across: middle(layout, source) };
  const end: Stop = { along: layout.along(target, starts), across: middle(layout, target) };
  const isForward = end.along >= begin.along;
  const sign = isForward ? 1 : -1;
  const lines = isForward ? linesBetween(layout, source, target) : linesBack(layout, source, target);
  const bends: Bend[] = [];
  let from = begin;
  lines.forEach(({ depth, line }, i) => {
    const along = starts[depth]! + line * layout.linePitch;
    const wish = from.across + (end.across - from.across) / (lines.length - i + 1);
    const across = freePlace(layout.layers[depth]!.lines[line]!.slots, layout.slotPitch, sizeAcross, wish);
    const [enter, leave] = isForward ? [along, along + sizeAlong] : [along + sizeAlong, along];
    bends.push({ from, to: { along: enter, across }, leaves: i ? sign : 1, arrives: sign });
    from = { along: leave, across };
  });
  bends.push({ from, to: end, leaves: bends.length ? sign : 1, arrives: 1 });
  return bends;
}

interface Place {
  depth: number;
  line: number;
}

function middle(layout: LayeredLayout, box: number): number {
  return layout.slot[box]! * layout.slotPitch + layout.sizeAcross / 2;
}

/** The lines behind the source's and before the target's. */
function linesBetween(layout: LayeredLayout, source: number, target: number): Place[] {
  return linesFrom(layout, layout.depth[source]!, layout.line[source]! + 1, layout.depth[target]!, layout.line[target]!);
}

/** The lines from the source's back to the target's, both included: the way goes round both ends. */
function linesBack(layout: LayeredLayout, source: number, target: number): Place[] {
  return linesFrom(layout, layout.depth[target]!, layout.line[target]!, layout.depth[source]!, layout.line[source]! + 1).reverse();
}

function linesFrom(layout: LayeredLayout, depth: number, line: number, lastDepth: number, endLine: number): Place[] {
  const places: Place[] = [];
  for (; depth <= lastDepth; depth++, line = 0) {
    const end = depth === lastDepth ? endLine : layout.layers[depth]!.lines.length;
    for (; line < end; line++) {
      places.push({ depth, line });
    }
  }
  return places;
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
