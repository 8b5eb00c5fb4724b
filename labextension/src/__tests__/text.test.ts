import { afterEach, expect, test } from 'vitest';
import { __, _n, nTasks, translateWith } from '../text';

afterEach(() => translateWith(null));

test('without a translator texts are as they are written', () => {
  expect(__('%1 of %2', 'a', 3)).toBe('a of 3');
  expect([nTasks(1), nTasks(12_345)]).toEqual(['1 task', `${(12_345).toLocaleString()} tasks`]);
  expect(_n('%2 task waited for %3', '%2 tasks waited for %3', 2, 'f')).toBe('2 tasks waited for f');
});

test('what fills a gap is not taken for a gap itself', () => {
  expect(__('%1 of %2', '%2', '%1')).toBe('%2 of %1');
});

test('a translator gets the phrase with what fills it, and of a plural the number first', () => {
  const asked: unknown[] = [];
  translateWith({
    __: (...args) => `${asked.push(args)}`,
    _n: (...args) => `${asked.push(args)}`
  });
  expect([__('worker %1', 7), nTasks(1200)]).toEqual(['1', '2']);
  expect(asked).toEqual([['worker %1', '7'], ['%2 task', '%2 tasks', 1200, (1200).toLocaleString()]]);
});
