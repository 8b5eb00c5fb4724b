import { expect, test } from 'vitest';
import { Glide } from '../../layout/glide';
import { LayeredLayout } from '../../layout/layered';
import { TASK_METRICS } from '../../layout/metrics';
import { type Sight, Viewpoint } from '../../layout/viewpoint';
import { NONE } from '../../model/rows';

function sight(height: number, front = 0): Sight {
  return { bounds: { x: 0, y: 0, width: 600, height }, direction: 'down', isOverview: false, front: () => front };
}

function viewpoint(): Viewpoint {
  const made = new Viewpoint();
  made.size = { width: 500, height: 800 };
  return made;
}

test('the flow turns with the panel, but not at every pixel', () => {
  const view = viewpoint();
  expect(view.direction()).toBe('down');
  view.size = { width: 1000, height: 800 };
  expect(view.direction()).toBe('down');
  view.size = { width: 1000, height: 600 };
  expect(view.direction()).toBe('right');
  view.size = { width: 1000, height: 800 };
  expect(view.direction()).toBe('right');
});

test('it follows the work until the reader takes over', () => {
  const view = viewpoint();
  view.begin(sight(10_000));
  for (let i = 0; i < 100; i++) {
    view.step(sight(10_000, 6000), 16, true);
  }
  const { y, zoom } = view.camera;
  expect(y).toBeLessThan(6000);
  expect(y + 800 / zoom).toBeGreaterThan(6000);
  view.jumpTo({ x: 0, y: 0, zoom: 1 });
  expect(view.step(sight(10_000, 6000), 16, true)).toBe(false);
  expect(view.camera).toEqual({ x: 0, y: 0, zoom: 1 });
});

test('the newest stands at two thirds, also where nothing lies behind it yet', () => {
  const view = viewpoint();
  view.begin(sight(10_000, 10_000));
  const { y, zoom } = view.camera;
  const share = ((10_000 - y) * zoom) / 800;
  expect(share).toBeGreaterThan(0.6);
  expect(share).toBeLessThan(0.75);
});

test('a camera that follows sets off gently when the work is suddenly elsewhere, and arrives', () => {
  const view = viewpoint();
  view.begin(sight(10_000, 1000));
  const from = view.camera.y;
  const steps: number[] = [];
  for (let i = 0; i < 200 && view.step(sight(10_000, 5000), 16, true); i++) {
    steps.push(view.camera.y);
  }
  const way = steps.at(-1)! - from;
  const moves = steps.map((y, i) => (y - (steps[i - 1] ?? from)) / way);
  expect(moves[0]!).toBeLessThan(0.03); // a first frame of an eighth of the way would be a jump
  expect(Math.max(...moves)).toBeLessThan(0.1);
  expect(Math.min(...moves)).toBeGreaterThanOrEqual(0);
  const arrived = viewpoint();
  arrived.begin(sight(10_000, 5000));
  expect(view.camera.y).toBeCloseTo(arrived.camera.y, 0);
});

test('without motion it is there at once', () => {
  const view = viewpoint();
  view.moveTo({ x: 50, y: 60, zoom: 2 });
  expect(view.step(null, 16, false)).toBe(false);
  expect(view.camera).toEqual({ x: 50, y: 60, zoom: 2 });
});

test('a box under the card is brought out from under it', () => {
  const view = viewpoint();
  view.jumpTo({ x: 0, y: 0, zoom: 1 });
  view.cover(0, 400);
  view.reveal({ x: 100, y: 600, width: 100, height: 30 });
  expect(view.target.y).toBeGreaterThan(200);
});

function chain(nSlots: number): LayeredLayout {
  const layout = new LayeredLayout(TASK_METRICS.down, nSlots, 'down');
  for (const parents of [[], [], [], [0]]) {
    layout.add({ parents, continues: NONE, block: 1 });
  }
  return layout;
}

test('boxes glide to a new arrangement and arrive', () => {
  const glide = new Glide();
  const [before, after] = [chain(2), chain(8)];
  glide.begin(before, false);
  expect(glide.shift).toBeNull();
  glide.begin(after, true);
  expect(glide.shift?.some(distance => distance !== 0)).toBe(true);
  let n = 0;
  while (glide.step(after, 0.3, 1)) {
    expect(++n).toBeLessThan(100);
  }
  expect(glide.shift).toBeNull();
});

test('layers that are pushed on glide too', () => {
  const glide = new Glide();
  const layout = chain(3);
  glide.begin(layout, false);
  layout.add({ parents: [], continues: NONE, block: 1 });
  expect(glide.step(layout, 0.5, 1)).toBe(true);
  expect(glide.starts[1]).toBeLessThan(layout.starts()[1]!);
  expect(glide.step(layout, 1, 1)).toBe(false);
  expect(glide.starts[1]).toBe(layout.starts()[1]);
});
