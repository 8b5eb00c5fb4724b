// The inputs of one picture, and the steps that all pictures share.

import type { Camera, Size } from '../layout/camera';
import type { LayeredLayout } from '../layout/layered';
import { type Bend, route, TURN_REACH } from '../layout/route';
import type { TaskGraph } from '../model/graph';
import type { Theme } from '../theme/theme';
import type { Pen } from './pen';

export interface Scene {
  graph: TaskGraph;
  layout: LayeredLayout;
  /** Where the layers begin as shown; they may still be gliding towards `layout.starts()`. */
  starts: Float64Array;
  /** How far each box still is from its place after a new arrangement, pairs (x, y); null when all are there. */
  shift: Float32Array | null;
  camera: Camera;
  view: Size;
  theme: Theme;
  /** Seconds since the session began. */
  now: number;
  /** The caller's clock, milliseconds: what `born` and `changed` are measured on. */
  clockMs: number;
  /** False when the reader wants things to stand still. */
  isMoving: boolean;
  hovered: number;
  selected: number;
  /** When set, everything else is dimmed. */
  lit: ((box: number) => boolean) | null;
}

/** Names of tasks are drawn from this zoom on. */
export const NAMES_ZOOM = 0.5;
export const DIMMED = 0.16;
const TURN_MS = 1400;
const BORN_MS = 200;
const FLASH_MS = 600;

/** Draw in world units: zoom and position of the camera are in the pen until `restore`. */
export function enterWorld(pen: Pen, { camera }: Scene): void {
  pen.save();
  pen.scale(camera.zoom, camera.zoom);
  pen.translate(-camera.x, -camera.y);
}

/**
 * The rotation of turning marks, 0 to 1, once round in a little more than a second; constant if the reader wants no
 * motion.
 */
export function phase({ clockMs, isMoving }: Scene): number {
  return isMoving ? (clockMs % TURN_MS) / TURN_MS : 0.12;
}

/** How far something that appeared at `bornMs` has faded in. */
export function fadeIn({ clockMs, isMoving }: Scene, bornMs: number): number {
  return isMoving ? Math.min(1, Math.max(0, (clockMs - bornMs) / BORN_MS)) : 1;
}

/** 1 just after `changedMs`, then falling to 0. */
export function flash({ clockMs, isMoving }: Scene, changedMs: number): number {
  return isMoving ? Math.max(0, 1 - (clockMs - changedMs) / FLASH_MS) : 0;
}

/** Whether anything fades at this time, given when the graph last changed. */
export function isSettled(clockMs: number, changedMs: number): boolean {
  return clockMs - changedMs > FLASH_MS;
}

/** Faint dots make panning over empty space visible. */
export function drawGrid(pen: Pen, { camera, view, theme }: Scene): void {
  let step = 24 * camera.zoom;
  while (step < 16) {
    step *= 2;
  }
  const from = (at: number) => (((-at * camera.zoom) % step) + step) % step;
  pen.fillStyle = theme.grid;
  for (let y = from(camera.y); y < view.height; y += step) {
    for (let x = from(camera.x); x < view.width; x += step) {
      pen.fillRect(x - 0.75, y - 0.75, 1.5, 1.5);
    }
  }
}

/** Where a box is drawn: at its place, or on the way there. */
export function boxX({ layout, starts, shift }: Scene, box: number): number {
  return layout.x(box, starts) + (shift && 2 * box < shift.length ? shift[2 * box]! : 0);
}

export function boxY({ layout, starts, shift }: Scene, box: number): number {
  return layout.y(box, starts) + (shift && 2 * box < shift.length ? shift[2 * box + 1]! : 0);
}

/** A soft S from the end of one box to the beginning of another, along the flow. */
export function connect(pen: Pen, scene: Scene, source: number, target: number): void {
  const { metrics, direction } = scene.layout;
  const { width, height } = metrics;
  const [x1, y1] = [boxX(scene, source), boxY(scene, source)];
  const [x2, y2] = [boxX(scene, target), boxY(scene, target)];
  if (direction === 'right') {
    const bend = Math.max(18, Math.abs(x2 - x1 - width) * 0.45);
    pen.moveTo(x1 + width, y1 + height / 2);
    pen.bezierCurveTo(x1 + width + bend, y1 + height / 2, x2 - bend, y2 + height / 2, x2, y2 + height / 2);
  } else {
    const bend = Math.max(16, Math.abs(y2 - y1 - height) * 0.5);
    pen.moveTo(x1 + width / 2, y1 + height);
    pen.bezierCurveTo(x1 + width / 2, y1 + height + bend, x2 + width / 2, y2 - bend, x2 + width / 2, y2);
  }
}

/** A line from one box to another that passes behind no other box. */
export function leadRound(pen: Pen, scene: Scene, source: number, target: number): void {
  const { layout, starts, shift } = scene;
  if (shift) {
    connect(pen, scene, source, target); // boxes are moving, so the channels are not free yet
  } else {
    drawWay(pen, layout, route(layout, starts, source, target));
  }
}

function drawWay(pen: Pen, layout: LayeredLayout, bends: readonly Bend[]): void {
  const isRight = layout.direction === 'right';
  const point = (along: number, across: number): [number, number] => (isRight ? [along, across] : [across, along]);
  pen.moveTo(...point(bends[0]!.from.along, bends[0]!.from.across));
  for (const { from, to, leaves, arrives } of bends) {
    pen.lineTo(...point(from.along, from.across));
    // An S within the channel; a U that stays in it.
    const reach = leaves === arrives ? Math.abs(to.along - from.along) / 2 : TURN_REACH;
    pen.bezierCurveTo(
      ...point(from.along + leaves * reach, from.across),
      ...point(to.along - arrives * reach, to.across),
      ...point(to.along, to.across)
    );
  }
}
