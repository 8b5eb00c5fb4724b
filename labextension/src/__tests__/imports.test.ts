import { expect, test } from 'vitest';
import { problems } from '../../imports.mjs';

const files = (texts: Record<string, string>) => problems(new Map(Object.entries(texts)));

test('imports down the order of folders are fine, of types and of parts that are loaded later, too', () => {
  expect(
    files({
      'index.ts': "export { Panel } from './lab/panel';",
      'lab/panel.ts': "import { View } from '../panels/body';",
      'panels/body.tsx': "const Logs = lazily(async () => (await import('./logs/view')).Logs);",
      'panels/logs/view.tsx': "import type { State } from '../shared/state';",
      'panels/shared/state.ts': "import { graph } from '../../model/graph';",
      'model/graph.ts': "import { signal } from '@preact/signals';"
    })
  ).toEqual([]);
});

test.each([
  ['up', { 'model/graph.ts': "import { draw } from '../draw/tasks';", 'draw/tasks.ts': '' }, 'above'],
  ['up for a type', { 'protocol/a.ts': "import type { B } from '../lab/b';", 'lab/b.ts': '' }, 'above'],
  ['up, later', { 'draw/a.ts': "await import('../panels/body');", 'panels/body.tsx': '' }, 'above'],
  [
    'of another view',
    { 'panels/logs/view.tsx': "import { a } from '../tables/view';", 'panels/tables/view.tsx': '' },
    'beside'
  ]
])('an import %s is named', (_, texts, where) => {
  const [from, to] = Object.keys(texts);
  expect(files(texts as unknown as Record<string, string>)).toEqual([
    `${from}: must not import ${to}, which is ${where} it`
  ]);
});

test('a circle is named, file by file', () => {
  expect(
    files({
      'model/a.ts': "import { b } from './b';",
      'model/b.ts': "import type { C } from './c';",
      'model/c.ts': "export { a } from './a';"
    })
  ).toEqual(['model/a.ts: a circle of imports: model/a.ts -> model/b.ts -> model/c.ts -> model/a.ts']);
});

test('a folder without a place in the order is named', () => {
  expect(files({ 'misc/a.ts': '' })).toEqual(['misc/a.ts: the folder misc has no place in the order of imports']);
});
