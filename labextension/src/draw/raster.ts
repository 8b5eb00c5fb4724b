// The overview: every row a few pixels of one image, written directly. A hundred thousand rows cost about five
// milliseconds this way, where canvas calls cost hundreds.

import { Kind, N_STATES, State } from '../protocol';
import type { Scene } from './scene';
import { rgba } from './theme';

/** Lines drawn in the overview, evenly chosen; more would be a grey mass and cost a hundred times as much. */
export const RASTER_EDGES = 8000;

/** Where boxes share a pixel the more important one is seen. */
const IMPORTANCE: Record<keyof typeof State, number> = {
  failed: 7,
  running: 6,
  retrying: 5,
  cancelled: 2,
  ready: 4,
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
  colours[OBJECT] = rgba(theme.edge);
  ranks[OBJECT] = 1;
  const { depth, line, slot, n } = layout;
  for (let row = 0; row < n; row++) {
    const along = starts[depth[row]!]! * zoom + line[row]! * linePitch;
    const across = slot[row]! * slotPitch;
    const left = (flowsRight ? along : across) - ox;
    const top = (flowsRight ? across : along) - oy;
    const [x, y] = [Math.round(left), Math.round(top)];
    const [right, bottom] = [Math.max(x + 1, Math.round(left + w)), Math.max(y + 1, Math.round(top + h))];
    if (right <= 0 || bottom <= 0 || x >= image.width || y >= image.height) {
      continue;
    }
    const look = graph.kind[row] === Kind.object ? OBJECT : graph.state[row]!;
    let colour = colours[look]!;
    let rank = ranks[look]!;
    if (lit && !lit(row)) {
      colour = (colour & 0xffffff) | 0x30000000;
      rank = 0;
    }
    fill(image, x, y, right, bottom, colour, rank);
  }
}

/** A box's length in pixels, up to the next one when the gap between them could not be drawn. */
function solid(length: number, pitch: number): number {
  return pitch - length < 1 ? pitch : length;
}

function fill(image: Image, x: number, y: number, right: number, bottom: number, colour: number, rank: number): void {
  const { pixels, rank: ranks, width } = image;
  const [endX, endY] = [Math.min(width, right), Math.min(image.height, bottom)];
  for (let py = Math.max(0, y); py < endY; py++) {
    for (let at = py * width + Math.max(0, x), end = py * width + endX; at < end; at++) {
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
  const [outX, outY, inX, inY] = layout.direction === 'right' ? [width, height / 2, 0, height / 2] : [width / 2, height, width / 2, 0];
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

/** A line of single pixels, clipped to the image by walking only the part inside. */
function drawLine(image: Image, x1: number, y1: number, x2: number, y2: number, colour: number): void {
  const { width, height, pixels } = image;
  const [dx, dy] = [x2 - x1, y2 - y1];
  let [from, to] = [0, 1];
  for (const [start, delta, limit] of [
    [x1, dx, width - 1],
    [y1, dy, height - 1]
  ] as const) {
    if (delta === 0) {
      if (start < 0 || start > limit) {
        return;
      }
      continue;
    }
    const [a, b] = [-start / delta, (limit - start) / delta];
    from = Math.max(from, Math.min(a, b));
    to = Math.min(to, Math.max(a, b));
  }
  if (from > to) {
    return;
  }
  const steps = Math.max(1, Math.ceil(Math.max(Math.abs(dx), Math.abs(dy)) * (to - from)));
  for (let i = 0; i <= steps; i++) {
    const t = from + ((to - from) * i) / steps;
    const x = Math.round(x1 + dx * t);
    const y = Math.round(y1 + dy * t);
    if (x >= 0 && y >= 0 && x < width && y < height) {
      pixels[y * width + x] = colour;
    }
  }
}
