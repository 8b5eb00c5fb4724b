// The camera: which part of the world is seen, as a point and a zoom. Pure; values are never changed in place.

import type { Direction, Point, Rect } from './metrics';

export interface Camera {
  /** World coordinates of the view's top left corner. */
  x: number;
  y: number;
  /** Pixels per world unit. */
  zoom: number;
}

export interface Size {
  width: number;
  height: number;
}

/** The covered parts of the view, in pixels. */
export interface Insets {
  top: number;
  right: number;
  bottom: number;
  left: number;
}

export const ZOOM_MAX = 2.5;
export const ZOOM_MIN = 0.00002;
/** Fitting never zooms in beyond this. */
const FIT_ZOOM_MAX = 1.15;

export function clampZoom(zoom: number): number {
  return Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, zoom));
}

/** Zoom by a factor, keeping the world point under (px, py) where it is. */
export function zoomAt(camera: Camera, px: number, py: number, factor: number): Camera {
  const zoom = clampZoom(camera.zoom * factor);
  return { x: camera.x + px / camera.zoom - px / zoom, y: camera.y + py / camera.zoom - py / zoom, zoom };
}

export function panBy(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x - dx / camera.zoom, y: camera.y - dy / camera.zoom };
}

export function fitZoom(rect: Rect, view: Size, margin: number): number {
  const zoom = Math.min(
    (view.width - 2 * margin) / Math.max(1, rect.width),
    (view.height - 2 * margin) / Math.max(1, rect.height)
  );
  return clampZoom(Math.min(FIT_ZOOM_MAX, zoom));
}

/** The whole rectangle, centred. */
export function fit(rect: Rect, view: Size, margin: number): Camera {
  const zoom = fitZoom(rect, view, margin);
  return {
    x: rect.x + rect.width / 2 - view.width / 2 / zoom,
    y: rect.y + rect.height / 2 - view.height / 2 / zoom,
    zoom
  };
}

/** The position of the newest work in the view along the flow: it leaves room for what led to it and for what comes. */
const FRONT_SHARE = 0.67;
/** Text may be this much smaller if everything is seen then. */
const WHOLE_SHARE = 0.7;

/**
 * The whole rectangle if it is about legible then. Otherwise a legible part, with `front`, the place along the flow
 * where work goes on, at two thirds of the view.
 */
export function follow(
  rect: Rect,
  view: Size,
  margin: number,
  legible: number,
  front: number,
  direction: Direction
): Camera {
  if (fitZoom(rect, view, margin) >= WHOLE_SHARE * legible) {
    return fit(rect, view, margin);
  }
  const zoom = legible;
  const pad = margin / zoom;
  const place = (start: number, size: number, length: number, wish: number) =>
    size + 2 * pad <= length ? start + size / 2 - length / 2 : Math.max(start - pad, wish);
  const [width, height] = [view.width / zoom, view.height / zoom];
  return {
    x: place(rect.x, rect.width, width, direction === 'right' ? front - FRONT_SHARE * width : rect.x - pad),
    y: place(rect.y, rect.height, height, direction === 'down' ? front - FRONT_SHARE * height : rect.y - pad),
    zoom
  };
}

/** The view without its covered parts. */
export function inner(view: Size, { top, right, bottom, left }: Insets): Size {
  return { width: Math.max(80, view.width - left - right), height: Math.max(80, view.height - top - bottom) };
}

/** Converts a camera for the uncovered view into one for the whole view; with `sign` -1 the other way. */
export function outer(camera: Camera, { top, left }: Insets, sign: 1 | -1 = 1): Camera {
  return { ...camera, x: camera.x - (sign * left) / camera.zoom, y: camera.y - (sign * top) / camera.zoom };
}

/** Move just far enough that the rectangle is inside the view. */
export function reveal(camera: Camera, rect: Rect, view: Size, margin: number): Camera {
  const pad = margin / camera.zoom;
  const seen = { width: view.width / camera.zoom, height: view.height / camera.zoom };
  const shift = (at: number, size: number, from: number, length: number) =>
    at < from + pad ? at - pad : at + size > from + length - pad ? at + size + pad - length : from;
  return {
    ...camera,
    x: shift(rect.x, rect.width, camera.x, seen.width),
    y: shift(rect.y, rect.height, camera.y, seen.height)
  };
}

/** The world point under a point of the view. */
export function toWorld(camera: Camera, px: number, py: number): Point {
  return { x: camera.x + px / camera.zoom, y: camera.y + py / camera.zoom };
}

/** The view's rectangle in world units. */
export function seen(camera: Camera, view: Size): Rect {
  return { x: camera.x, y: camera.y, width: view.width / camera.zoom, height: view.height / camera.zoom };
}

/** A step of share `t` towards a target; zoom goes in equal ratios, so that it looks even. */
export function approach(from: Camera, to: Camera, view: Size, t: number): Camera {
  const zoom = from.zoom * (to.zoom / from.zoom) ** t;
  const centre = (camera: Camera) =>
    [camera.x + view.width / 2 / camera.zoom, camera.y + view.height / 2 / camera.zoom] as const;
  const [fx, fy] = centre(from);
  const [tx, ty] = centre(to);
  return { x: fx + (tx - fx) * t - view.width / 2 / zoom, y: fy + (ty - fy) * t - view.height / 2 / zoom, zoom };
}

/** Whether no pixel would move. */
export function isClose(a: Camera, b: Camera): boolean {
  return (
    Math.abs(a.x - b.x) * b.zoom < 0.3 && Math.abs(a.y - b.y) * b.zoom < 0.3 && Math.abs(a.zoom / b.zoom - 1) < 0.001
  );
}
