import { expect, test } from 'vitest';
import { approach, fit, follow, inner, isClose, outer, panBy, reveal, toWorld, zoomAt } from '../../layout/camera';

const view = { width: 500, height: 800 };
const camera = { x: 10, y: 20, zoom: 0.5 };

test('zooming keeps the point under the pointer', () => {
  const before = toWorld(camera, 120, 300);
  const after = toWorld(zoomAt(camera, 120, 300, 1.7), 120, 300);
  expect(after.x).toBeCloseTo(before.x);
  expect(after.y).toBeCloseTo(before.y);
});

test('panning moves by pixels', () => {
  expect(panBy(camera, 10, -5)).toEqual({ x: -10, y: 30, zoom: 0.5 });
});

test('fitting centres, and does not draw larger than life', () => {
  const found = fit({ x: 0, y: 0, width: 100, height: 50 }, view, 20);
  expect(found.zoom).toBeLessThan(1.3);
  expect(toWorld(found, 250, 400)).toEqual({ x: 50, y: 25 });
});

test('following shows all while it is legible, then keeps the front in view', () => {
  const long = { x: 0, y: 0, width: 400, height: 40_000 };
  expect(follow({ ...long, height: 500 }, view, 20, 0.5, 0, 'down')).toEqual(fit({ ...long, height: 500 }, view, 20));
  const found = follow(long, view, 20, 0.5, 30_000, 'down');
  expect(found.zoom).toBe(0.5);
  expect(found.y).toBeLessThan(30_000);
  expect(found.y + view.height / 0.5).toBeGreaterThan(30_000);
  expect(follow(long, view, 20, 0.5, 0, 'down').y).toBeLessThanOrEqual(0);
});

test('a covered part is not used', () => {
  const insets = { top: 0, right: 0, bottom: 300, left: 0 };
  const found = outer(fit({ x: 0, y: 0, width: 100, height: 100 }, inner(view, insets), 20), insets);
  expect(toWorld(found, 250, 250)).toEqual({ x: 50, y: 50 });
});

test('revealing moves no farther than needed', () => {
  const near = { x: 100, y: 100, width: 50, height: 50 };
  expect(reveal(camera, near, view, 10)).toEqual(camera);
  expect(reveal(camera, { ...near, y: 5000 }, view, 10).y).toBe(5000 + 50 + 20 - 1600);
});

test('approaching arrives', () => {
  const goal = { x: 3000, y: -200, zoom: 1.5 };
  let at = camera;
  for (let i = 0; i < 60; i++) {
    at = approach(at, goal, view, 0.2);
  }
  expect(isClose(at, goal)).toBe(true);
});
