// The values of a store that can be shown as boxes of their size. Pure.

import type { MemoryReply, ObjectFacts } from '../../protocol/messages';

export interface Shown {
  /** Those that take room, in memory or on disk; the largest first. */
  objects: ObjectFacts[];
  bytes: number;
  /** What they are a part of. */
  ofBytes: number;
  /** There are more that take room. */
  isCut: boolean;
  /** Values so small that they lie in the store's own tables. */
  nSmall: number;
}

export function shownOf({ objects: all, n_objects: nObjects, used, disk }: MemoryReply): Shown {
  const objects = all.filter(({ size, place }) => size > 0 && place !== 'slot');
  // The kernel tells the largest: once there are small ones among them, those that take room have all been told.
  const isCut = objects.length === all.length && all.length < nObjects;
  return {
    objects,
    bytes: objects.reduce((sum, { size }) => sum + size, 0),
    ofBytes: used + disk,
    isCut,
    nSmall: isCut ? 0 : nObjects - objects.length
  };
}
