import { expect, test } from 'vitest';
import { shownOf } from '../../../model/views/stored';
import type { MemoryReply, ObjectFacts, Place } from '../../../protocol/messages';

const value = (size: number, place: Place = 'memory'): ObjectFacts => ({
  row: -1,
  size,
  place,
  state: 'ready',
  made_by: 'put',
  holders: [],
  variables: [],
  users: 0
});
const map = (objects: ObjectFacts[], nObjects: number, used = 0, disk = 0): MemoryReply => ({
  objects,
  status: 'ok',
  n_objects: nObjects,
  used,
  capacity: 1e6,
  peak: used,
  disk,
  n_on_disk: 0
});

test('values that lie in the tables are no part of the memory that is in use', () => {
  const shown = shownOf(map([value(500), ...Array.from({ length: 199 }, () => value(5, 'slot'))], 300, 576));
  expect(shown).toMatchObject({ bytes: 500, ofBytes: 576, isCut: false, nSmall: 299 });
  expect(shown.objects).toHaveLength(1);
});

test('of many large ones the largest are shown, on disk as well, as a part of all', () => {
  const shown = shownOf(map([value(900, 'disk'), value(500)], 50, 5000, 900));
  expect(shown).toMatchObject({ bytes: 1400, ofBytes: 5900, isCut: true, nSmall: 0 });
  expect(shown.bytes).toBeLessThanOrEqual(shown.ofBytes);
});

test('an empty store', () => {
  expect(shownOf(map([], 0))).toMatchObject({ objects: [], isCut: false, nSmall: 0 });
});
