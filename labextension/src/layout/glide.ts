// Moves boxes smoothly to their places: layers that were pushed by the growth of an earlier one, and whole pictures
// that were arranged again. The layout changes at once; drawing follows, so that the eye can.

import type { LayeredLayout } from './layered';

/** With more layers a push takes effect at once. */
const LAYERS_MAX = 2000;
/** With more boxes a new arrangement takes effect at once. */
const BOXES_MAX = 3000;
/** A box nearer than this, in pixels, has arrived. */
const CLOSE_PX = 0.3;

export class Glide {
  /** Where the layers begin as drawn. */
  starts = new Float64Array(0);
  /** How far each box still is from its place, pairs (x, y); null when all are there. */
  shift: Float32Array | null = null;
  private layout: LayeredLayout | null = null;

  /** Draw another layout from now on. Boxes glide from their earlier places if the layout shows the same boxes. */
  begin(layout: LayeredLayout, isSame: boolean): void {
    const before = this.layout;
    this.shift = isSame && before && before !== layout && before.n <= BOXES_MAX ? way(before, layout) : null;
    this.starts = layout.starts().slice();
    this.layout = layout;
  }

  /** Move by a share of the remaining distance; true while anything moves. */
  step(layout: LayeredLayout, share: number, zoom: number): boolean {
    const targets = layout.starts();
    const n = layout.layers.length;
    if (this.starts.length < n) {
      const known = this.starts;
      this.starts = new Float64Array(Math.max(n, 2 * known.length));
      this.starts.set(known);
      this.starts.set(targets.subarray(known.length, n), known.length);
    }
    if (share >= 1 || n > LAYERS_MAX) {
      this.starts.set(targets.subarray(0, n));
      this.shift = null;
      return false;
    }
    let isMoving = this.settle(share, zoom);
    for (let i = 0; i < n; i++) {
      const away = targets[i]! - this.starts[i]!;
      // Layers only move forward; one that seems to move back is new.
      if (away < 0 || away * zoom < CLOSE_PX) {
        this.starts[i] = targets[i]!;
      } else {
        this.starts[i] = this.starts[i]! + away * share;
        isMoving = true;
      }
    }
    return isMoving;
  }

  private settle(share: number, zoom: number): boolean {
    const { shift } = this;
    if (!shift) {
      return false;
    }
    let farthest = 0;
    for (let i = 0; i < shift.length; i++) {
      shift[i] = shift[i]! * (1 - share);
      farthest = Math.max(farthest, Math.abs(shift[i]!));
    }
    if (farthest * zoom < CLOSE_PX) {
      this.shift = null;
    }
    return this.shift !== null;
  }
}

/** How far each box is from where it was in the layout before. */
function way(before: LayeredLayout, layout: LayeredLayout): Float32Array {
  const [from, to] = [before.starts(), layout.starts()];
  const shift = new Float32Array(2 * before.n);
  for (let box = 0; box < before.n; box++) {
    shift[2 * box] = before.x(box, from) - layout.x(box, to);
    shift[2 * box + 1] = before.y(box, from) - layout.y(box, to);
  }
  return shift;
}
