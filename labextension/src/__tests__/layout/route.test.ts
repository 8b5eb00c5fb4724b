import { describe, expect, test } from 'vitest';
import { LayeredLayout } from '../../layout/layered';
import { type Direction, GROUP_METRICS } from '../../layout/metrics';
import { type Bend, route, TURN_REACH } from '../../layout/route';
import { NONE } from '../../model/rows';

function layoutOf(parents: number[][], direction: Direction, nSlots = 3): LayeredLayout {
  const layout = new LayeredLayout(GROUP_METRICS[direction], nSlots, direction);
  parents.forEach(list => layout.add({ parents: list, continues: NONE, block: 1 }));
  return layout;
}

/** The boxes that a route passes through, except its ends. */
function struck(layout: LayeredLayout, bends: Bend[], source: number, target: number): number[] {
  const starts = layout.starts();
  const found = new Set<number>();
  const look = (along: number, across: number) => {
    for (let box = 0; box < layout.n; box++) {
      const begin = layout.along(box, starts);
      const side = layout.slot[box]! * layout.slotPitch;
      if (along > begin && along < begin + layout.sizeAlong && across > side && across < side + layout.sizeAcross) {
        found.add(box);
      }
    }
  };
  bends.forEach(({ from, to, leaves, arrives }, i) => {
    const reach = leaves === arrives ? Math.abs(to.along - from.along) / 2 : TURN_REACH;
    for (let t = 0; t <= 1; t += 0.02) {
      const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
      look(
        a * from.along + b * (from.along + leaves * reach) + c * (to.along - arrives * reach) + d * to.along,
        (a + b) * from.across + (c + d) * to.across
      );
      const next = bends[i + 1]?.from ?? to;
      look(to.along + t * (next.along - to.along), to.across);
      expect(next.across).toBe(to.across);
    }
  });
  found.delete(source);
  found.delete(target);
  return [...found];
}

test('an edge to the next layer is one bend', () => {
  const layout = layoutOf([[], [0]], 'down');
  expect(route(layout, layout.starts(), 0, 1)).toHaveLength(1);
});

test('an edge over a layer goes round the box between', () => {
  const layout = layoutOf([[], [0], [1]], 'down');
  const bends = route(layout, layout.starts(), 0, 2);
  expect(bends).toHaveLength(2);
  expect(struck(layout, bends, 0, 2)).toEqual([]);
});

describe.each(['right', 'down'] as const)('flowing %s', direction => {
  test('no edge is drawn behind a box that it has nothing to do with', () => {
    // A seeded generator, so that the graphs are the same each time.
    let state = 7;
    const random = (n: number) => (state = (state * 16807) % 2147483647) % n;
    for (let round = 0; round < 5; round++) {
      const n = 4 + random(14);
      const parents = Array.from({ length: n }, (_, box) =>
        Array.from({ length: Math.min(box, random(3)) }, () => random(box))
      );
      const layout = layoutOf(parents, direction);
      for (let source = 0; source < n; source++) {
        for (let target = 0; target < n; target++) {
          if (source !== target) {
            expect(struck(layout, route(layout, layout.starts(), source, target), source, target)).toEqual([]);
          }
        }
      }
    }
  });

  test('nor an edge between blocks', () => {
    const layout = new LayeredLayout(GROUP_METRICS[direction], 6, direction);
    const outlook = (nSlots: number, feeders: number[]) => ({ nSlots, feeders: new Set(feeders) });
    const add = (block: number, parents: number[], first?: [number, number[]]) =>
      layout.add({ parents, continues: NONE, block }, first && outlook(...first));
    add(0, [], [1, []]);
    add(0, [0]);
    add(1, [], [1, []]); // beside the first
    add(2, [], [2, []]); // and beside that
    add(2, []);
    add(3, [0], [6, [0]]); // a full line on the next shelf
    for (let i = 0; i < 6; i++) {
      add(3, []);
    }
    add(4, [], [1, []]);
    add(5, [0, 1, 2, 3, 4], [1, [0, 1, 2, 3, 4]]);
    const target = layout.n - 1;
    expect(layout.shelves.length).toBeGreaterThan(2);
    for (let source = 0; source < target; source++) {
      if (layout.bandOf(source).shelf < layout.bandOf(target).shelf) {
        expect(struck(layout, route(layout, layout.starts(), source, target), source, target)).toEqual([]);
      }
    }
  });
});
