import { expect, test } from 'vitest';
import { treemap } from '../../layout/treemap';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { curveOf } from '../../model/views/curves';
import { LogBook, printedAt, select } from '../../model/views/logs';
import { fileName } from '../../panels/history/bar';
import type { LogLine, Stream } from '../../protocol/messages';
import { message, sample } from '../helpers';

const line = (row: number, text: string, at = 1, stream: Stream = 'stdout'): LogLine => ({
  at,
  row,
  stream,
  pid: 1,
  text
});

function printed() {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [{ fn: 1 }, { fn: 2 }],
      header: {
        functions: [
          [1, 'load'],
          [2, 'train']
        ]
      }
    }),
    0
  );
  const book = new LogBook();
  book.add({
    first: 0,
    lines: [line(0, 'begin', 1), line(1, 'epoch 1', 2), line(0, 'end', 3), line(-1, 'nobody knows', 4, 'stderr')]
  });
  const all = { words: '', row: null, stream: null, until: null, during: null, sort: 'time' as const };
  const texts = (query: object) => select(book, graph, { ...all, ...query }).map(({ text }) => text);
  return { book, texts, graph };
}

test('logs are searched by text and by the name of the task, and filtered', () => {
  const { texts } = printed();
  expect(texts({})).toEqual(['begin', 'epoch 1', 'end', 'nobody knows']);
  expect(texts({ words: 'LOAD en' })).toEqual(['end']);
  expect(texts({ row: 1 })).toEqual(['epoch 1']);
  expect(texts({ stream: 'stderr' })).toEqual(['nobody knows']);
  expect(texts({ until: 2 })).toEqual(['begin', 'epoch 1']);
  expect(texts({ during: [2, 3] })).toEqual(['epoch 1', 'end']);
  expect(texts({ sort: 'task' })).toEqual(['nobody knows', 'begin', 'end', 'epoch 1']);
});

test('a line that comes after the end of its task was printed before it, unless it comes much later', () => {
  const { book, texts, graph } = printed();
  graph.finished[0] = 0.5;
  expect(book.lines.map(each => printedAt(graph, each))).toEqual([0.5, 2, 3, 4]);
  expect(texts({ during: [0.2, 0.6] })).toEqual(['begin']);
  expect(texts({ until: 0.6 })).toEqual(['begin']);
});

test('lines that were forgotten are counted, and no more are kept than can be shown', () => {
  const { book } = printed();
  expect(book.next).toBe(4);
  expect(book.add({ first: 10, lines: [line(0, 'late')] })).toBe(true);
  expect([book.nMissing, book.next, book.lines.length]).toEqual([6, 11, 5]);
  expect(book.add({ first: 11, lines: [] })).toBe(false);
  book.add({ first: 11, lines: Array.from({ length: 60_000 }, () => line(0, 'x')) });
  expect(book.lines.length).toBe(50_000);
});

test('boxes of a map fill it and are as large as what they stand for', () => {
  const sizes = [60, 30, 20, 10, 5, 5, 1, 0.5];
  const box = { x: 3, y: 4, width: 400, height: 200 };
  const boxes = treemap(sizes, box);
  const scale = (400 * 200) / sizes.reduce((sum, size) => sum + size, 0);
  boxes.forEach((each, i) => {
    expect(each.width * each.height).toBeCloseTo(sizes[i]! * scale);
    expect(each.x).toBeGreaterThanOrEqual(box.x - 1e-6);
    expect(each.x + each.width).toBeLessThanOrEqual(box.x + box.width + 1e-6);
    expect(each.y + each.height).toBeLessThanOrEqual(box.y + box.height + 1e-6);
    expect(Math.max(each.width / each.height, each.height / each.width)).toBeLessThan(5);
  });
  for (const [i, a] of boxes.entries()) {
    for (const b of boxes.slice(i + 1)) {
      const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
      const high = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
      expect(Math.min(wide, high)).toBeLessThan(1e-6);
    }
  }
  expect(treemap([], box)).toEqual([]);
  expect(treemap([1, 1], { x: 0, y: 0, width: 0, height: 0 })).toHaveLength(2);
});

test('a curve has a gap where nothing was noted', () => {
  const stretches = [
    { from: 0, to: 10, start: 0, end: 0.5 },
    { from: 100, to: 110, start: 0.5, end: 1 }
  ];
  const samples = [sample(0), sample(1, { load: 0.5 }), sample(2, { load: 1 }), sample(100, { load: 1 })];
  const { line: path, area } = curveOf(samples, stretches, each => each.load, 1, 100, 50);
  expect(path).toBe('M0.0,49.0 L5.0,25.0 L10.0,1.0 M50.0,1.0 L50.0,1.0');
  expect(area).toBe('M0.0,50 L0.0,49.0 L5.0,25.0 L10.0,1.0 L10.0,50 Z');
  expect(curveOf([], stretches, each => each.load, 0, 100, 50)).toEqual({ line: '', area: '' });
});

test.each([
  ['tour.ipynb', 'tour.cellmesh'],
  ['a/b: c?.ipynb', 'a-b- c-.cellmesh'],
  ['', 'session.cellmesh']
])('the file of %j is called %j', (label, name) => {
  expect(fileName(label)).toBe(name);
});
