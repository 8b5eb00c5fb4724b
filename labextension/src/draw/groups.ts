// draw/: marks on a canvas or in SVG; never the page, nor where things stand, which is `layout/`.

// Draws the graph as groups, one box for each cell and function: a ring of progress, the numbers, and a waffle of
// states that shows the front of the work moving.

import { duration, short, size } from '../i18n/format';
import { __, nObjects, nTasks } from '../i18n/translate';
import { inheritedIn } from '../model/failures';
import type { TaskGraph } from '../model/graph';
import { type Group, WAFFLE_CELLS } from '../model/groups';
import { NONE } from '../model/rows';
import { Kind, N_STATES, State } from '../protocol/messages';
import { mix, nodeColour, type Theme } from '../theme/theme';
import { drawMark, drawObjectMark } from './marks';
import { ellipsis, type Pen, shortName } from './pen';
import { boxX, boxY, DIMMED, enterWorld, leadRound, phase, type Scene } from './scene';

const TURN = 2 * Math.PI;
const PADDING = 12;
const RING_R = 17;
const WAFFLE_HEIGHT = 23;
const WAFFLE_ROWS = 3;
/** Below this zoom only ring and name are drawn. */
const NUMBERS_ZOOM = 0.4;
const N_SHARES = 8;
/** The area of a machine extends this far beyond its boxes, and this far above them for its name. */
export const MARGIN = 14;
export const CAPTION = 20;

export function drawGroups(pen: Pen, scene: Scene, boxes: readonly number[]): void {
  enterWorld(pen, scene);
  if (scene.graph.byMachine) {
    drawMachines(pen, scene);
  }
  drawEdges(pen, scene);
  for (const box of boxes) {
    const group = scene.graph.groups.list[box]!;
    if (group.n) {
      pen.globalAlpha = scene.lit && !scene.lit(box) ? DIMMED * 1.8 : 1;
      drawGroup(pen, scene, group);
    }
  }
  pen.globalAlpha = 1;
  pen.restore();
}

export function isAnimated({ graph }: Scene, boxes: readonly number[]): boolean {
  return boxes.some(box => graph.groups.list[box]!.counts[State.running]! > 0);
}

/** Draws each machine's colour behind its boxes, and its name above them. */
function drawMachines(pen: Pen, { graph, layout, theme, starts }: Scene): void {
  for (const box of layout.blockStarts) {
    const { first, last, layers, shelf } = layout.bandOf(box);
    const { node } = graph.groups.list[box]!;
    const along = [starts[layers[0]!]!, layout.shelves[shelf]!.length] as const;
    const across = [first * layout.slotPitch, (last - first) * layout.slotPitch + layout.sizeAcross] as const;
    const [[x, width], [y, height]] = layout.direction === 'right' ? [along, across] : [across, along];
    const colour = nodeColour(theme, node);
    pen.fillStyle = colour;
    pen.globalAlpha = theme.isDark ? 0.14 : 0.09;
    pen.beginPath();
    pen.roundRect(x - MARGIN, y - MARGIN - CAPTION, width + 2 * MARGIN, height + 2 * MARGIN + CAPTION, 16);
    pen.fill();
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.arc(x + 6, y - 17, 5, 0, TURN);
    pen.fill();
    pen.textAlign = 'left';
    pen.textBaseline = 'alphabetic';
    pen.font = `600 13px ${theme.font}`;
    pen.fillStyle = theme.text;
    pen.fillText(graph.nodeName(node), x + 18, y - 12.5);
    const label = graph.nodes.get(node);
    if (label?.state === 'dead') {
      const left = x + 26 + pen.measureText(graph.nodeName(node)).width;
      pen.font = `400 12px ${theme.font}`;
      pen.fillStyle = theme.states[State.failed]!.solid;
      pen.fillText(__('lost at %1', duration(label.ended)), left, y - 12.5);
    }
  }
}

function drawEdges(pen: Pen, scene: Scene): void {
  const { graph, layout, theme } = scene;
  const { width } = layout.metrics;
  pen.lineCap = 'round';
  for (const { source, target, n } of graph.groups.edges) {
    const isLit = scene.lit !== null && scene.lit(source) && scene.lit(target);
    const from = graph.groups.list[source]!;
    const isFlowing = graph.groups.list[target]!.counts[State.running]! > 0 && from.ended > 0;
    pen.globalAlpha = scene.lit && !isLit ? 0.25 : 0.75;
    pen.strokeStyle = isFlowing || isLit ? theme.accent : theme.edge;
    pen.lineWidth = Math.min(6, 1.25 + 0.3 * Math.log2(n));
    pen.beginPath();
    if (source === target) {
      // A group that feeds itself: a loop over the corner.
      const [corner, y1] = [boxX(scene, source) + width, boxY(scene, source)];
      pen.moveTo(corner - 46, y1);
      pen.bezierCurveTo(corner - 46, y1 - 26, corner + 26, y1 - 26, corner + 26, y1 + 6);
      pen.bezierCurveTo(corner + 26, y1 + 22, corner + 14, y1 + 28, corner, y1 + 28);
    } else {
      leadRound(pen, scene, source, target);
    }
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function drawGroup(pen: Pen, scene: Scene, group: Group): void {
  const { graph, layout, theme, camera } = scene;
  const { width, height } = layout.metrics;
  const [x, y] = [boxX(scene, group.index), boxY(scene, group.index)];
  const isSelected = scene.selected === group.index;
  const isHovered = scene.hovered === group.index;
  const alpha = pen.globalAlpha;
  const nRunning = group.counts[State.running]!;
  const nFailed = group.counts[State.failed]!;

  // Three thin cards mean many.
  pen.lineWidth = 1;
  pen.strokeStyle = theme.border;
  pen.fillStyle = theme.surface;
  for (let behind = Math.min(2, group.n - 1); behind > 0; behind--) {
    pen.beginPath();
    pen.roundRect(x + 5 * behind, y + 3.5 * behind, width - 10 * behind, height, 12);
    pen.fill();
    pen.stroke();
  }
  pen.beginPath();
  pen.roundRect(x, y, width, height, 12);
  pen.fill();
  if (nRunning > 0) {
    pen.globalAlpha = alpha * 0.16;
    pen.strokeStyle = theme.states[State.running]!.solid;
    pen.lineWidth = 5;
    pen.stroke();
    pen.globalAlpha = alpha;
  }
  pen.lineWidth = isSelected ? 2.25 : 1;
  pen.strokeStyle =
    isSelected || isHovered
      ? theme.accent
      : nFailed
        ? failureColour(scene, group)
        : nRunning
          ? theme.states[State.running]!.solid
          : theme.border;
  pen.stroke();

  drawRing(pen, scene, group, x + PADDING + RING_R, y + PADDING + RING_R + 2);
  const left = x + PADDING + 2 * RING_R + 12;
  const right = x + width - PADDING;
  pen.textBaseline = 'alphabetic';
  pen.fillStyle = theme.textSoft;
  let room = right - left;
  if (camera.zoom >= NUMBERS_ZOOM) {
    pen.font = `400 11px ${theme.font}`;
    const cell = graph.cells.get(group.cell)?.label ?? '';
    pen.textAlign = 'right';
    pen.fillText(cell, right, y + 27);
    pen.textAlign = 'left';
    pen.fillText(
      ellipsis(
        pen,
        numbers(group, inheritedIn(graph).byGroup.get(group.index) ?? 0)
          .filter(Boolean)
          .join('  ·  '),
        room
      ),
      left,
      y + 45
    );
    room -= pen.measureText(cell).width + 8;
  }
  pen.textAlign = 'left';
  pen.fillStyle = theme.text;
  pen.font = `600 14px ${theme.font}`;
  const name = graph.groupName(group);
  pen.fillText(shortName(pen, name, room), left, y + 27);
  drawWaffle(pen, scene, group, x + PADDING, y + height - PADDING - WAFFLE_HEIGHT, width - 2 * PADDING);
}

function failuresInWords(nFailed: number, nInherited: number): string {
  if (nInherited === nFailed) {
    return __('%1 failed via inputs', short(nFailed));
  }
  return nInherited
    ? __('%1 failed, %2 via inputs', short(nFailed), short(nInherited))
    : __('%1 failed', short(nFailed));
}

/** Whether all failures of a group were inherited from inputs. */
function isOnlyInherited(graph: TaskGraph, group: Group): boolean {
  const nFailed = group.counts[State.failed]!;
  return nFailed > 0 && inheritedIn(graph).byGroup.get(group.index) === nFailed;
}

/** Paler if the failures were inherited. */
function failureColour({ graph, theme }: Pick<Scene, 'graph' | 'theme'>, group: Group): string {
  const { solid, tint } = theme.states[State.failed]!;
  return isOnlyInherited(graph, group) ? mix(solid, tint, 0.6) : solid;
}

function numbers(group: Group, nInherited: number): string[] {
  if (group.kind === Kind.object) {
    return [nObjects(group.n), size(group.bytes)];
  }
  const nFailed = group.counts[State.failed]!;
  const mean = duration(group.meanSeconds);
  const all = group.ended === group.n ? nTasks(group.n) : __('%1 of %2', short(group.ended), short(group.n));
  return [all, nFailed ? failuresInWords(nFailed, nInherited) : mean && group.n > 1 ? __('%1 each', mean) : mean];
}

function drawRing(pen: Pen, scene: Scene, group: Group, x: number, y: number): void {
  const { theme } = scene;
  if (group.kind === Kind.object) {
    drawObjectMark(pen, theme.textSoft, x, y, RING_R * 0.72);
    return;
  }
  const share = group.n ? group.ended / group.n : 0;
  pen.lineWidth = 4.5;
  pen.lineCap = 'butt';
  pen.strokeStyle = theme.states[State.waiting]!.tint === theme.surface ? theme.border : mixTrack(theme);
  pen.beginPath();
  pen.arc(x, y, RING_R - 2, 0, TURN);
  pen.stroke();
  let from = -TURN / 4;
  for (const state of [State.finished, State.failed, State.cancelled, State.running] as const) {
    const sweep = (group.counts[state]! / Math.max(1, group.n)) * TURN;
    if (sweep > 0) {
      pen.strokeStyle = state === State.failed ? failureColour(scene, group) : theme.states[state]!.solid;
      pen.beginPath();
      pen.arc(x, y, RING_R - 2, from, from + Math.max(sweep, 0.05));
      pen.stroke();
      from += sweep;
    }
  }
  if (share === 1) {
    const state = group.counts[State.failed]
      ? State.failed
      : group.counts[State.cancelled] === group.n
        ? State.cancelled
        : State.finished;
    drawMark(pen, theme, state, x, y, 8, 0, isOnlyInherited(scene.graph, group) ? 'inherited' : 'own');
    return;
  }
  if (group.counts[State.running] && scene.isMoving) {
    // A small light on the ring shows that work goes on even while the share stays the same.
    const angle = phase(scene) * TURN - TURN / 4;
    pen.fillStyle = theme.states[State.running]!.solid;
    pen.beginPath();
    pen.arc(x + (RING_R - 2) * Math.cos(angle), y + (RING_R - 2) * Math.sin(angle), 3.4, 0, TURN);
    pen.fill();
  }
  pen.fillStyle = theme.text;
  pen.font = `600 10.5px ${theme.font}`;
  pen.textAlign = 'center';
  pen.textBaseline = 'middle';
  pen.fillText(`${Math.floor(share * 100)}%`, x, y + 0.5);
}

// ---- the waffle

function mixTrack(theme: Theme): string {
  return mix(theme.states[State.waiting]!.solid, theme.states[State.waiting]!.tint, theme.isDark ? 0.55 : 0.62);
}

const shareColours = new WeakMap<Theme, string[]>();

/** Colours from "nothing done" to "all done". */
function shares(theme: Theme): string[] {
  let colours = shareColours.get(theme);
  if (!colours) {
    const track = mixTrack(theme);
    const done = theme.states[State.finished]!.solid;
    colours = Array.from({ length: N_SHARES + 1 }, (_, i) => mix(track, done, i / N_SHARES));
    shareColours.set(theme, colours);
  }
  return colours;
}

/** The colour of a bucket of rows: work in progress, else the share that is done. Failures are drawn over it. */
export function bucketColour(theme: Theme, counts: Uint32Array, bucket: number): string {
  const at = bucket * N_STATES;
  if (counts[at + State.running]) {
    return theme.states[State.running]!.solid;
  }
  if (counts[at + State.retrying]) {
    return theme.states[State.retrying]!.solid;
  }
  const [finished, cancelled] = [counts[at + State.finished]!, counts[at + State.cancelled]!];
  if (cancelled > finished) {
    return theme.states[State.cancelled]!.solid;
  }
  const open = counts[at + State.waiting]! + counts[at + State.queued]!;
  return shares(theme)[Math.floor((N_SHARES * (finished + cancelled)) / Math.max(1, finished + cancelled + open))]!;
}

/** The share of a bucket that failed, at least large enough to be visible. */
export function failedShare(counts: Uint32Array, bucket: number): number {
  const at = bucket * N_STATES;
  const failed = counts[at + State.failed]!;
  if (!failed) {
    return 0;
  }
  let all = 0;
  for (let state = 0; state < N_STATES; state++) {
    all += counts[at + state]!;
  }
  return Math.max(0.3, failed / all);
}

function drawWaffle(pen: Pen, scene: Scene, group: Group, x: number, y: number, width: number): void {
  const { theme } = scene;
  const { waffle } = group;
  const failure = failureColour(scene, group);
  const { nBuckets } = waffle;
  const perRow = WAFFLE_CELLS / WAFFLE_ROWS;
  const nRows = Math.min(WAFFLE_ROWS, Math.ceil(nBuckets / perRow));
  const nColumns = Math.ceil(nBuckets / nRows);
  const gap = 1.25;
  const cellWidth = Math.min(20, (width + gap) / nColumns - gap);
  const cellHeight = (WAFFLE_HEIGHT + gap) / nRows - gap;
  for (let bucket = 0; bucket < nBuckets; bucket++) {
    const left = x + Math.floor(bucket / nRows) * (cellWidth + gap);
    const top = y + (bucket % nRows) * (cellHeight + gap);
    pen.fillStyle = group.kind === Kind.object ? theme.edge : bucketColour(theme, waffle.counts, bucket);
    pen.fillRect(left, top, cellWidth, cellHeight);
    const failed = failedShare(waffle.counts, bucket);
    if (failed) {
      pen.fillStyle = failure;
      pen.fillRect(left, top + cellHeight * (1 - failed), cellWidth, cellHeight * failed);
    }
  }
}

/** Groups that a group reaches or is reached from in one step, itself included. */
export function groupNeighbours({ graph }: Pick<Scene, 'graph'>, group: number): Set<number> {
  const found = new Set([group]);
  if (group !== NONE) {
    for (const { source, target } of graph.groups.edges) {
      if (source === group) {
        found.add(target);
      }
      if (target === group) {
        found.add(source);
      }
    }
  }
  return found;
}
