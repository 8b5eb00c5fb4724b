// The parts that a layout is made of: shelves, the bands of blocks on them, layers, lines of slots. Pure.

import { NONE } from '../model/rows';

/** What a layout needs to know of one box when it appears. */
export interface Appearance {
  /** Boxes it depends on; all of them have been placed. */
  parents: readonly number[];
  /** A box that it continues: it goes to the same slot if that is free. NONE if none. */
  continues: number;
  /** What it is laid out with. */
  block: number;
}

/** What is known of a block when its first box appears. */
export interface Outlook {
  /** The most boxes that will lie beside each other. */
  nSlots: number;
  /** Boxes of other blocks that it needs. */
  feeders: ReadonlySet<number>;
  /** It lies beside the others as far as there is room, whatever feeds it and however long they are. */
  isBeside?: boolean;
}

/** Boxes of one line of a layer, sorted by slot. */
export interface Line {
  slots: number[];
  boxes: number[];
}

export interface Layer {
  band: Band;
  lines: Line[];
  /** The first line that is not full. */
  open: number;
}

/** The place of one block: some slots of a shelf, and its layers in them. */
export interface Band {
  shelf: number;
  /** Its first slot, and the one behind its last; nothing else lies between them on the shelf. */
  readonly first: number;
  end: number;
  /** The last slot in which a box lies. */
  last: number;
  /** Its layers, by depth. */
  readonly layers: number[];
  /** Where the latest box without parents lies. */
  rootLine: number;
  rootSlot: number;
}

export interface Shelf {
  readonly bands: Band[];
  begin: number;
  length: number;
}

/** The last index of an ascending sequence whose value is not above `value`; 0 if there is none. */
export function lastUpTo(n: number, valueAt: (i: number) => number, value: number): number {
  let low = 0;
  let high = n - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (valueAt(middle) <= value) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return Math.max(0, high);
}

/** Index of the first entry that is not below `value`. */
export function lowerBound(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** The first free slot from `wish` to `end` (a slot is free when no box overlaps it), or NONE. */
export function freeSlot({ slots }: Line, wish: number, end: number): number {
  let i = lowerBound(slots, wish - 0.5);
  let slot = wish;
  for (; i < slots.length && slots[i]! < slot + 1; i++) {
    slot = slots[i]! + 1;
  }
  return slot + 1 <= end ? slot : NONE;
}
