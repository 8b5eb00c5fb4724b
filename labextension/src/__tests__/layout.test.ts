import { describe, expect, test } from 'vitest';
import { type Scenario, mapReduce, parameterServer, quickstart, recursion } from '../../dev/trace';
import { GroupArrangement, TaskArrangement } from '../arrange';
import { type Direction, LayeredLayout, NONE, TASK_METRICS, slotsFor } from '../layout';
import { TaskGraph } from '../model';
import { play } from './helpers';

function layoutOf(parents: number[][], direction: Direction = 'right', nSlots = 20): LayeredLayout {
  const layout = new LayeredLayout(TASK_METRICS[direction], nSlots, direction);
  parents.forEach(list => layout.add({ parents: list, continues: NONE, block: 1 }));
  return layout;
}

/** Boxes as rectangles. */
function rects(layout: LayeredLayout) {
  const starts = layout.starts();
  const { width, height } = layout.metrics;
  return Array.from({ length: layout.n }, (_, box) => ({ x: layout.x(box, starts), y: layout.y(box, starts), width, height }));
}

function expectNoOverlap(layout: LayeredLayout): void {
  const boxes = rects(layout).map((rect, box) => ({ ...rect, box }));
  boxes.sort((a, b) => a.x - b.x);
  for (let i = 0; i < boxes.length; i++) {
    for (let k = i + 1; k < boxes.length && boxes[k]!.x < boxes[i]!.x + boxes[i]!.width; k++) {
      expect(Math.abs(boxes[k]!.y - boxes[i]!.y)).toBeGreaterThanOrEqual(boxes[i]!.height);
    }
  }
}

test('a chain is a straight line', () => {
  const layout = layoutOf([[], [0], [1], [2]]);
  expect([...layout.depth.subarray(0, 4)]).toEqual([0, 1, 2, 3]);
  expect(new Set(rects(layout).map(rect => rect.y)).size).toBe(1);
});

test('a reduction is a tree: each box in the middle of what it takes', () => {
  const layout = layoutOf([[], [], [], [], [0, 1], [2, 3], [4, 5]]);
  expect([...layout.slot.subarray(0, 7)]).toEqual([0, 1, 2, 3, 0.5, 2.5, 1.5]);
});

test('a box lies one layer behind its deepest parent', () => {
  const layout = layoutOf([[], [0], [1], [0, 2]]);
  expect(layout.depth[3]).toBe(3);
});

test('a full layer goes on in another line and pushes the next layers on', () => {
  const layout = layoutOf([[], [0], ...Array.from({ length: 4 }, () => [])], 'down', 2);
  expect([...layout.line.subarray(0, 6)]).toEqual([0, 0, 0, 1, 1, 2]);
  const starts = layout.starts();
  expect(layout.y(1, starts)).toBeGreaterThan(layout.y(5, starts));
});

test('what continues a lane stays in it', () => {
  const layout = layoutOf([[], [], []]);
  layout.add({ parents: [0], continues: 2, block: 1 });
  expect(layout.slot[3]).toBe(2);
});

test('a new block begins half a slot later and is remembered', () => {
  const layout = layoutOf([[], []]);
  layout.add({ parents: [], continues: NONE, block: 2 });
  expect(layout.slot[2]).toBe(2.5);
  expect(layout.blockStarts).toEqual([0, 2]);
});

const scenarios: [string, Scenario][] = [
  ['quickstart', quickstart()],
  ['actors', parameterServer()],
  ['map and reduce', mapReduce(400, 0.02, 8)],
  ['recursion', recursion(8)]
];

describe.each(scenarios)('%s', (_, scenario) => {
  const graph = new TaskGraph();
  play(graph, scenario);

  test.each(['right', 'down'] as const)('flowing %s', direction => {
    const arrangement = new TaskArrangement(graph);
    arrangement.update(direction);
    const { layout } = arrangement;
    expectNoOverlap(layout);
    for (let e = 0; e < graph.nEdges; e++) {
      expect(layout.depth[graph.target[e]!]).toBeGreaterThan(layout.depth[graph.source[e]!]!);
    }
    const bounds = layout.bounds();
    for (const [box, rect] of rects(layout).entries()) {
      expect(rect.x + rect.width).toBeLessThanOrEqual(bounds.width + 1e-6);
      expect(rect.y + rect.height).toBeLessThanOrEqual(bounds.height + 1e-6);
      expect(layout.at({ x: rect.x + 1, y: rect.y + 1 })).toBe(box);
      expect(layout.at({ x: rect.x + rect.width + 5, y: rect.y + 1 })).not.toBe(box);
    }
  });

  test('what is in view is found, and nothing else', () => {
    const arrangement = new TaskArrangement(graph);
    arrangement.update('down');
    const view = { x: 200, y: 100, width: 400, height: 300 };
    const expected = rects(arrangement.layout).flatMap((rect, box) =>
      rect.x <= view.x + view.width && rect.x + rect.width >= view.x && rect.y <= view.y + view.height && rect.y + rect.height >= view.y ? [box] : []
    );
    const found: number[] = [];
    arrangement.layout.visible(view, box => found.push(box));
    expect(found.sort((a, b) => a - b)).toEqual(expected);
  });

  test('nothing jumps while the graph grows', () => {
    const growing = new TaskGraph();
    const arrangement = new TaskArrangement(growing);
    let places: string[] = [];
    let generation = 0;
    for (let until = 0; until < 2; until += 0.1) {
      play(growing, scenario, until);
      arrangement.update('down');
      const { layout } = arrangement;
      const now = Array.from({ length: layout.n }, (_unused, box) => `${layout.depth[box]} ${layout.line[box]} ${layout.slot[box]}`);
      if (arrangement.generation === generation) {
        expect(now.slice(0, places.length)).toEqual(places);
      }
      generation = arrangement.generation;
      places = now;
    }
  });

  test('its groups lie apart', () => {
    const arrangement = new GroupArrangement(graph);
    arrangement.update('down');
    expect(arrangement.layout.n).toBe(graph.groups.list.length);
    expectNoOverlap(arrangement.layout);
  });
});

test('late edges are put right once the kernel has caught up', async () => {
  const { message } = await import('./helpers');
  const graph = new TaskGraph();
  const arrangement = new TaskArrangement(graph);
  graph.apply(message('snapshot', { rows: [{}, {}], header: { behind: 1 } }), 0);
  arrangement.update('down');
  graph.apply(message('delta', { edges: [[0, 1]], header: { behind: 1 } }), 0);
  arrangement.update('down');
  expect(arrangement.layout.depth[1]).toBe(0);
  graph.apply(message('delta'), 0);
  arrangement.update('down');
  expect(arrangement.layout.depth[1]).toBe(1);
});

test('large pictures keep the proportions of a panel', () => {
  for (const n of [500, 10_000, 100_000]) {
    const layout = layoutOf(Array.from({ length: n }, () => []), 'down', slotsFor(n, 'down'));
    const { width, height } = layout.bounds();
    expect(height / width).toBeGreaterThan(0.4);
    expect(height / width).toBeLessThan(4);
  }
});
