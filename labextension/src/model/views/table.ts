// A table: its columns, how it is searched and how it is sorted. Pure.
//
// An item is a number. Sorting compares numbers only (texts by their rank among the distinct ones), so that a hundred
// thousand items are sorted between two frames.

import { State } from '../../protocol/messages';

export interface Column {
  key: string;
  title: string;
  /** Share of the width. */
  grow: number;
  /** Only where there is so much room, in pixels. */
  from: number;
  isNumber?: boolean;
  text: (item: number) => string;
  /** What it is sorted by; without it, the text. */
  value?: (item: number) => number;
}

export interface Table {
  items: number[];
  columns: Column[];
  /** What a search looks through. */
  words: (item: number) => string[];
  /** The row of the graph that is chosen with an item; NONE if there is none. */
  row(item: number): number;
  /** The state that is shown with it, as for a row of the graph. */
  state?(item: number): State;
  /** It failed only because an input did. */
  isInherited?(item: number): boolean;
  /** What else there is to say of an item; '' if nothing. */
  hint?(item: number): string;
}

export interface Order {
  key: string;
  isDescending: boolean;
}

/** The latest first: how a table is ordered unless the reader asks otherwise. */
export const NEWEST: Order = { key: '', isDescending: true };

/** The items that contain every word of a search, regardless of case. */
export function search({ items, words }: Table, query: string): number[] {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) {
    return items;
  }
  const known = new Map<string, boolean[]>();
  const hits = (word: string) => {
    let found = known.get(word);
    if (!found) {
      const lower = word.toLowerCase();
      found = wanted.map(part => lower.includes(part));
      known.set(word, found);
    }
    return found;
  };
  return items.filter(item => {
    const of = words(item).map(hits);
    return wanted.every((_, i) => of.some(found => found[i]));
  });
}

/** Items in order; what has no value comes last, whichever way round. */
export function sorted(items: readonly number[], columns: readonly Column[], { key, isDescending }: Order): number[] {
  const column = columns.find(each => each.key === key);
  if (!column) {
    return isDescending ? [...items].reverse() : [...items];
  }
  const sign = isDescending ? -1 : 1;
  if (!column.value) {
    return items
      .map(item => [column.text(item), item] as const)
      .sort(([a, i], [b, k]) => sign * a.localeCompare(b) || i - k)
      .map(([, item]) => item);
  }
  const values = Float64Array.from(items, column.value);
  const order = Uint32Array.from(items.keys()).sort((a, b) => {
    const [x, y] = [values[a]!, values[b]!];
    return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || sign * (x - y) || a - b;
  });
  return Array.from(order, at => items[at]!);
}
