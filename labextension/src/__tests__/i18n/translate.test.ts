import { afterEach, expect, test } from 'vitest';
import german from '../../../../cellmesh/locale/de_DE/LC_MESSAGES/cellmesh.json';
import japanese from '../../../../cellmesh/locale/ja_JP/LC_MESSAGES/cellmesh.json';
import { chosen, translations } from '../../i18n/catalogue';
import { __, _n, nTasks, translateWith } from '../../i18n/translate';

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
  expect(asked).toEqual([
    ['worker %1', '7'],
    ['%2 task', '%2 tasks', 1200, (1200).toLocaleString()]
  ]);
});

test('a page without a kernel is in the language of its reader', () => {
  translateWith(translations(german));
  expect([__('Timeline'), __('no such text %1', 'x'), nTasks(1), nTasks(1200)]).toEqual([
    'Zeitachse',
    'no such text x',
    '1 Task',
    `${(1200).toLocaleString()} Tasks`
  ]);
  translateWith(translations(japanese));
  expect([__('Timeline'), nTasks(1), nTasks(2)].map(text => text.replace(/\d/, 'n'))).toEqual([
    'タイムライン',
    'タスク n',
    'タスク n'
  ]);
});

test.each([
  [['de-AT', 'en'], 'de'],
  [['fr', 'ja'], 'ja'],
  [['en-GB', 'de'], 'en'],
  [['fr'], undefined]
])('of %s', (languages, expected) => {
  expect(chosen(languages, ['de', 'ja'])).toBe(expected);
});
