import { expect, test } from 'vitest';
import { keyLeadsTo } from '../../panels/shared/choices';
import { isTooNarrow } from '../../panels/shared/compact';
import { PanelState, TABS } from '../../panels/shared/state';

test.each([
  ['ArrowRight', 2, 3],
  ['ArrowDown', 4, 0],
  ['ArrowLeft', 0, 4],
  ['ArrowUp', 3, 2],
  ['Home', 3, 0],
  ['End', 1, 4],
  ['Enter', 1, -1],
  ['g', 1, -1]
])('%s leads from %i to %i of five', (key, at, to) => {
  expect(keyLeadsTo(key, at, 5)).toBe(to);
});

test('a view is chosen by name; another one takes the card away and keeps what is chosen', () => {
  const state = new PanelState();
  expect(state.tabs).toEqual(TABS.filter(tab => !['machines', 'trials', 'learning'].includes(tab)));
  expect(state.tab).toBe('tasks');
  state.choose({ kind: 'task', index: 0 });
  state.showTab('timeline');
  expect([state.view.value, state.tab, state.isCardOpen.value, state.selection.value?.index]).toEqual([
    'timeline',
    'timeline',
    false,
    0
  ]);
  state.choose({ kind: 'task', index: 0 });
  expect(state.isCardOpen.value).toBe(true);
  state.showTab('groups');
  expect([state.view.value, state.show.value, state.tab]).toEqual(['graph', 'groups', 'groups']);
});

test('a search leads to the tables, or stays with the logs', () => {
  const state = new PanelState();
  state.search();
  expect([state.tab, state.wantsSearch.value]).toEqual(['tables', true]);
  state.showTab('logs');
  state.search();
  expect(state.tab).toBe('logs');
});

test('names give way to signs where they do not fit beside the point of view', () => {
  expect(
    [
      [700, 430],
      [560, 430],
      [640, 486],
      [350, 430],
      [0, 430]
    ].map(([width, needed]) => isTooNarrow(width!, needed!))
  ).toEqual([false, true, false, true, false]);
});
