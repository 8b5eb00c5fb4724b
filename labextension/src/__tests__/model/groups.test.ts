import { expect, test } from 'vitest';
import { Waffle, WAFFLE_CELLS } from '../../model/groups';
import { N_STATES, State } from '../../protocol/messages';

test('a waffle has a bucket for each row while there is room', () => {
  const waffle = new Waffle();
  const rank = waffle.add(State.waiting);
  waffle.add(State.running);
  waffle.change(rank, State.waiting, State.finished);
  expect([waffle.bucketSize, waffle.nBuckets]).toEqual([1, 2]);
  expect(waffle.counts[State.finished]).toBe(1);
  expect(waffle.counts[N_STATES + State.running]).toBe(1);
});

test('neighbours share a bucket when there are more rows, in order', () => {
  const waffle = new Waffle();
  const n = 5 * WAFFLE_CELLS;
  for (let i = 0; i < n; i++) {
    waffle.add(i < n / 2 ? State.finished : State.waiting);
  }
  expect(waffle.bucketSize).toBe(8);
  expect(waffle.counts[State.finished]).toBe(8);
  expect(waffle.counts[(waffle.nBuckets - 1) * N_STATES + State.waiting]).toBeGreaterThan(0);
  expect(waffle.counts.reduce((sum, count) => sum + count, 0)).toBe(n);
});
