// Draws the overview: each row is a few pixels of one image, written directly. A hundred thousand rows take about five
// milliseconds this way; canvas calls would take hundreds.

import { failedThrough } from '../model/failures';
import { Kind, N_STATES, State } from '../protocol/messages';
import { mix, rgba } from '../theme/theme';
import type { Scene } from './scene';

/** Lines drawn in the overview, evenly chosen; more would be a grey mass and cost a hundred times as much. */
export const RASTER_EDGES = 3000;

const SHORTEST_LINE = 3;

/** If boxes share a pixel, the more important one is shown. */
const IMPORTANCE: Record<keyof typeof State, number> = {
  failed: 7,
  running: 6,
  retrying: 5,
  cancelled: 2,
  queued: 4,
  waiting: 3,
  finished: 1
};
const OBJECT = N_STATES;

export interface Image {
  width: number;
  height: number;
  /** RGBA, one word a pixel. */
  pixels: Uint32Array;
  /** The importance of what lies in each pixel. */
  rank: Uint8Array;
}

export function makeImage(width: number, height: number): Image {
  return { width, height, pixels: new Uint32Array(width * height), rank: new Uint8Array(width * height) };
}

/** Draw all rows; `ratio` is device pixels per pixel of the view. */
export function rasterTasks(image: Image, scene: Scene, ratio: number): void {
  image.pixels.fill(0);
  image.rank.fill(0);
  rasterEdges(image, scene, ratio);
  const { graph, layout, starts, camera, theme, lit } = scene;
  const zoom = camera.zoom * ratio;
  const { width, height } = layout.metrics;
  const [linePitch, slotPitch] = [layout.linePitch * zoom, layout.slotPitch * zoom];
  const flowsRight = layout.direction === 'right';
  // Whole pixels, and no gaps that are less than one: half-covered pixels would shimmer and make patterns.
  const [pitchX, pitchY] = flowsRight ? [linePitch, slotPitch] : [slotPitch, linePitch];
  const [w, h] = [solid(width * zoom, pitchX), solid(height * zoom, pitchY)];
  const [ox, oy] = [camera.x * zoom, camera.y * zoom];
  const colours = new Uint32Array(N_STATES + 1);
  const ranks = new Uint8Array(N_STATES + 1);
  for (const [name, state] of Object.entries(State)) {
    colours[state] = rgba(theme.states[state]!.solid);
    ranks[state] = IMPORTANCE[name as keyof typeof State];
  }
  colours[State.finished] = rgba(theme.finishedCalm);
  const failed = theme.states[State.failed]!;
  const inherited = rgba(mix(failed.solid, failed.tint, 0.55));
  colours[OBJECT] = rgba(theme.edge);
  ranks[OBJECT] = 1;
  const { layer, line, slot, n } = layout;
  const { state, kind } = graph;
  // The innermost loop of the panel: plain variables, no allocation.
  for (let row = 0; row < n; row++) {
    const along = starts[layer[row]!]! * zoom + line[row]! * linePitch;
    const across = slot[row]! * slotPitch;
    const left = (flowsRight ? along : across) - ox;
    const top = (flowsRight ? across : along) - oy;
    if (left >= image.width || top >= image.height || left + w < 0 || top + h < 0) {
      continue;
    }
    const look = kind[row] === Kind.object ? OBJECT : state[row]!;
    let colour = colours[look]!;
    let rank = ranks[look]!;
    if (look === State.failed && failedThrough(graph, row) >= 0) {
      colour = inherited; // failures that are causes come first
      rank--;
    }
    if (lit !== null && !lit(row)) {
      colour = (colour & 0xffffff) | 0x30000000;
      rank = 0;
    }
    const x = Math.round(left);
    const y = Math.round(top);
    fill(image, x, y, Math.max(x + 1, Math.round(left + w)), Math.max(y + 1, Math.round(top + h)), colour, rank);
  }
}

/** A box's length in pixels, up to the next one when the gap between them could not be drawn. */
function solid(length: number, pitch: number): number {
  return pitch - length < 1 ? pitch : length;
}

function fill(image: Image, x: number, y: number, right: number, bottom: number, colour: number, rank: number): void {
  const { pixels, rank: ranks, width } = image;
  const startX = x < 0 ? 0 : x;
  const endX = right > width ? width : right;
  const endY = bottom > image.height ? image.height : bottom;
  for (let py = y < 0 ? 0 : y; py < endY; py++) {
    for (let at = py * width + startX, end = py * width + endX; at < end; at++) {
      if (rank >= ranks[at]!) {
        pixels[at] = colour;
        ranks[at] = rank;
      }
    }
  }
}

function rasterEdges(image: Image, scene: Scene, ratio: number): void {
  const { graph, layout, starts, camera, theme, lit } = scene;
  const { width, height } = layout.metrics;
  const zoom = camera.zoom * ratio;
  // From the end of one box to the beginning of the other, along the flow.
  const [outX, outY, inX, inY] =
    layout.direction === 'right' ? [width, height / 2, 0, height / 2] : [width / 2, height, width / 2, 0];
  const stride = Math.max(1, Math.ceil(graph.nEdges / RASTER_EDGES));
  const colour = (rgba(theme.edge) & 0xffffff) | ((lit ? 0x20 : 0x58) << 24);
  for (let e = 0; e < graph.nEdges; e += stride) {
    const [source, target] = [graph.source[e]!, graph.target[e]!];
    if (source >= layout.n || target >= layout.n) {
      continue;
    }
    drawLine(
      image,
      (layout.x(source, starts) + outX - camera.x) * zoom,
      (layout.y(source, starts) + outY - camera.y) * zoom,
      (layout.x(target, starts) + inX - camera.x) * zoom,
      (layout.y(target, starts) + inY - camera.y) * zoom,
      colour
    );
  }
}

/** A line of single pixels, of which only the part inside the image is walked. */
function drawLine(image: Image, x1: number, y1: number, x2: number, y2: number, colour: number): void {
  const { width, height, pixels } = image;
  const dx = x2 - x1;
  const dy = y2 - y1;
  const length = Math.max(Math.abs(dx), Math.abs(dy));
  if (length < SHORTEST_LINE) {
    return; // hidden between its boxes
  }
  let from = 0;
  let to = 1;
  if (dx !== 0) {
    const [a, b] = [-x1 / dx, (width - 1 - x1) / dx];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  } else if (x1 < 0 || x1 >= width) {
    return;
  }
  if (dy !== 0) {
    const [a, b] = [-y1 / dy, (height - 1 - y1) / dy];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  } else if (y1 < 0 || y1 >= height) {
    return;
  }
  if (from > to) {
    return;
  }
  const steps = Math.max(1, Math.ceil(length * (to - from)));
  const stepX = (dx * (to - from)) / steps;
  const stepY = (dy * (to - from)) / steps;
  let x = x1 + dx * from + 0.5;
  let y = y1 + dy * from + 0.5;
  for (let i = 0; i <= steps; i++) {
    const px = x | 0;
    const py = y | 0;
    if (px >= 0 && py >= 0 && px < width && py < height) {
      pixels[py * width + px] = colour;
    }
    x += stepX;
    y += stepY;
  }
}
