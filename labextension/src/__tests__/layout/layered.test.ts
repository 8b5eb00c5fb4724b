import { describe, expect, test } from 'vitest';
import { mapReduce, parameterServer, quickstart, recursion, type Scenario } from '../../../dev/trace';
import { GroupArrangement, TaskArrangement } from '../../layout/arrange';
import { LayeredLayout } from '../../layout/layered';
import { type Direction, slotsFor, TASK_METRICS } from '../../layout/metrics';
import { apply, rewind } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { Moments } from '../../model/history';
import { NONE } from '../../model/rows';
import { play } from '../helpers';

function layoutOf(parents: number[][], direction: Direction = 'right', nSlots = 20): LayeredLayout {
  const layout = new LayeredLayout(TASK_METRICS[direction], nSlots, direction);
  parents.forEach(list => layout.add({ parents: list, continues: NONE, block: 1 }));
  return layout;
}

/** Boxes as rectangles. */
function rects(layout: LayeredLayout) {
  const starts = layout.starts();
  const { width, height } = layout.metrics;
  return Array.from({ length: layout.n }, (_, box) => ({
    x: layout.x(box, starts),
    y: layout.y(box, starts),
    width,
    height
  }));
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

/** A layout of blocks with these numbers of boxes without parents, one after the other. */
function blocksOf(sizes: number[], nSlots = 6): LayeredLayout {
  const layout = new LayeredLayout(TASK_METRICS.down, nSlots, 'down');
  sizes.forEach((n, block) => {
    for (let i = 0; i < n; i++) {
      layout.add({ parents: [], continues: NONE, block }, i ? undefined : { nSlots: n, feeders: new Set() });
    }
  });
  return layout;
}

describe('blocks', () => {
  test('that are small share a shelf, half a slot apart', () => {
    const layout = blocksOf([1, 2, 4]);
    expect([...layout.slot.subarray(0, 3)]).toEqual([0, 1.5, 2.5]);
    expect(layout.shelves.map(({ bands }) => bands.length)).toEqual([2, 1]);
    expect(layout.blockStarts).toEqual([0, 1, 3]);
  });

  test('that need each other follow each other along the flow', () => {
    const layout = blocksOf([1]);
    layout.add({ parents: [0], continues: NONE, block: 1 }, { nSlots: 1, feeders: new Set([0]) });
    expect([...layout.slot.subarray(0, 2)]).toEqual([0, 0]);
    expect(layout.shelves).toHaveLength(2);
    expect(layout.y(1, layout.starts())).toBeGreaterThan(layout.y(0, layout.starts()) + TASK_METRICS.down.height);
  });

  test('do not take room from each other when they grow', () => {
    const layout = blocksOf([1, 2]);
    for (let i = 0; i < 3; i++) {
      layout.add({ parents: [0], continues: NONE, block: 0 });
      layout.add({ parents: [], continues: NONE, block: 1 });
    }
    expectNoOverlap(layout);
    expect([...layout.slot.subarray(3)].filter((_, i) => i < 6 && i % 2 === 0)).toEqual([0, 0, 0]);
  });

  test('of old are not interleaved with new ones', () => {
    const layout = blocksOf([8, 8, 8]);
    const starts = layout.starts();
    const alongs = Array.from({ length: 3 }, (_, block) =>
      Array.from({ length: 8 }, (_unused, i) => layout.y(8 * block + i, starts))
    );
    expect(Math.max(...alongs[0]!)).toBeLessThan(Math.min(...alongs[1]!));
    expect(Math.max(...alongs[1]!)).toBeLessThan(Math.min(...alongs[2]!));
  });
});

test('a cell whose tasks came one by one gets room of its own once it is seen that it wants it', async () => {
  const { message } = await import('../helpers');
  const graph = new TaskGraph();
  const arrangement = new TaskArrangement(graph);
  const rows = (n: number, cell: number) => Array.from({ length: n }, () => ({ cell }));
  apply(graph, message('snapshot', { rows: rows(1, 1) }), 0);
  arrangement.update('down');
  for (let n = 0; n < 40; n++) {
    apply(graph, message('delta', { rows: rows(1, 2) }), 0);
    arrangement.update('down');
  }
  expect(arrangement.layout.shelves).toHaveLength(2);
  expect(arrangement.layout.isCramped).toBe(false);
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
    const starts = layout.starts();
    expectNoOverlap(layout);
    for (let e = 0; e < graph.nEdges; e++) {
      expect(layout.along(graph.target[e]!, starts)).toBeGreaterThan(layout.along(graph.source[e]!, starts));
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
      rect.x <= view.x + view.width &&
      rect.x + rect.width >= view.x &&
      rect.y <= view.y + view.height &&
      rect.y + rect.height >= view.y
        ? [box]
        : []
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
      const now = Array.from(
        { length: layout.n },
        (_unused, box) => `${layout.depth[box]} ${layout.line[box]} ${layout.slot[box]}`
      );
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
  const { message } = await import('../helpers');
  const graph = new TaskGraph();
  const arrangement = new TaskArrangement(graph);
  apply(graph, message('snapshot', { rows: [{}, {}], header: { behind: 1 } }), 0);
  arrangement.update('down');
  apply(graph, message('delta', { edges: [[0, 1]], header: { behind: 1 } }), 0);
  arrangement.update('down');
  expect(arrangement.layout.depth[1]).toBe(0);
  apply(graph, message('delta'), 0);
  arrangement.update('down');
  expect(arrangement.layout.depth[1]).toBe(1);
});

test('large pictures keep the proportions of a panel', () => {
  for (const n of [500, 10_000, 100_000]) {
    const layout = layoutOf(
      Array.from({ length: n }, () => []),
      'down',
      slotsFor(n, 'down')
    );
    const { width, height } = layout.bounds();
    expect(height / width).toBeGreaterThan(0.4);
    expect(height / width).toBeLessThan(4);
  }
});

test.each([TaskArrangement, GroupArrangement])(
  'going back in time leaves boxes where they are, and shows those that were there',
  Arrangement => {
    const graph = new TaskGraph();
    play(graph, recursion());
    const moments = new Moments(graph);
    const past = new TaskGraph();
    apply(past, moments.message(graph.now, null), 0);
    const arrangement = new Arrangement(past);
    arrangement.update('right');
    const { layout, generation } = arrangement;
    const before = rects(layout);
    const at = graph.now / 4;
    rewind(past, moments.rowsAt(at), at);
    apply(past, moments.message(at, graph.now), 0);
    arrangement.update('right');
    const boxes: number[] = [];
    layout.visible(layout.bounds(), box => boxes.push(box));
    expect(boxes.sort((a, b) => a - b)).toEqual([...Array(layout.n).keys()]);
    expect([layout.n, before.length]).toEqual([
      Arrangement === TaskArrangement ? past.n : past.groups.list.length,
      layout.nPlaced
    ]);
    expect(past.n).toBeLessThan(graph.n);
    for (const box of boxes) {
      expect(
        [layout.neighbour(box, 1), layout.neighbour(box, -1), layout.beyond(box, 1)].every(other => other < layout.n)
      ).toBe(true);
    }
    apply(past, moments.message(graph.now, at), 0);
    arrangement.update('right');
    expect([arrangement.layout, arrangement.generation]).toEqual([layout, generation]);
    expect(rects(layout)).toEqual(before);
  }
);
