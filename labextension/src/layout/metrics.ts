// Sizes of boxes and distances between them, for each direction of the flow. Pure.

/** The flow goes to the right in wide places, down in high ones. */
export type Direction = 'right' | 'down';

/** Sizes in world units; one unit is a pixel at zoom 1. */
export interface Metrics {
  width: number;
  height: number;
  /** Free space between neighbours in a line, lines of a layer, and layers. */
  gapSlot: number;
  gapLine: number;
  gapLayer: number;
  /** Between shelves; the blocks' captions stand there. */
  gapShelf: number;
}

export const TASK_METRICS: Record<Direction, Metrics> = {
  right: { width: 138, height: 28, gapSlot: 10, gapLine: 12, gapLayer: 48, gapShelf: 72 },
  down: { width: 138, height: 28, gapSlot: 14, gapLine: 10, gapLayer: 40, gapShelf: 60 }
};

export const GROUP_METRICS: Record<Direction, Metrics> = {
  right: { width: 244, height: 100, gapSlot: 34, gapLine: 34, gapLayer: 76, gapShelf: 76 },
  down: { width: 244, height: 100, gapSlot: 26, gapLine: 34, gapLayer: 56, gapShelf: 56 }
};

export interface Point {
  x: number;
  y: number;
}

export interface Rect extends Point {
  width: number;
  height: number;
}

/** The slots in a line that give a picture of so many boxes about the proportions of a panel. */
export function slotsFor(nBoxes: number, direction: Direction): number {
  const isHigh = direction === 'down';
  if (nBoxes <= 24) {
    return isHigh ? 5 : 10;
  }
  if (nBoxes <= 160) {
    return isHigh ? 6 : 16;
  }
  let slots = isHigh ? 8 : 20;
  for (let n = 512; n < nBoxes; n *= 4) {
    slots *= 2;
  }
  return slots;
}
