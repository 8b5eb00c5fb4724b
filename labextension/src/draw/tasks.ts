// Draws the graph task by task: boxes with names while names are readable, small pills at lower zooms.

import { duration, size } from '../i18n/format';
import { seen } from '../layout/camera';
import { failedThrough } from '../model/failures';
import { isEnded } from '../model/rows';
import { NONE } from '../model/rows';
import { Kind, NO_WORKER, State } from '../protocol/messages';
import { actorColour, nodeColour } from '../theme/theme';
import { drawMark, drawObjectMark } from './marks';
import { ellipsis, type Pen } from './pen';
import { boxX, boxY, DIMMED, enterWorld, fadeIn, flash, NAMES_ZOOM, phase, type Scene } from './scene';
import { drawEdges } from './task_edges';

/** Signs on pills are drawn from this zoom on. */
const SIGNS_ZOOM = 0.2;

/** Draw the boxes `rows` with their edges. */
export function drawTasks(pen: Pen, scene: Scene, rows: readonly number[]): void {
  enterWorld(pen, scene);
  drawEdges(pen, scene, rows);
  const withNames = scene.camera.zoom >= NAMES_ZOOM;
  if (withNames) {
    drawCaptions(pen, scene);
  }
  for (const row of rows) {
    pen.globalAlpha = fadeIn(scene, scene.graph.born[row]!) * (scene.lit && !scene.lit(row) ? DIMMED : 1);
    if (withNames) {
      drawBox(pen, scene, row);
    } else {
      drawPill(pen, scene, row);
    }
  }
  pen.globalAlpha = 1;
  for (const row of [scene.hovered, scene.selected]) {
    if (row !== NONE) {
      drawOutline(pen, scene, row, row === scene.selected);
    }
  }
  pen.restore();
}

/** Any of the rows would look different a frame later although nothing happens. */
export function isAnimated({ graph }: Scene, rows: readonly number[]): boolean {
  return rows.some(row => graph.state[row] === State.running || graph.state[row] === State.retrying);
}

// ---- boxes with names

function drawBox(pen: Pen, scene: Scene, row: number): void {
  const { graph, layout, theme, now } = scene;
  const { width, height } = layout.metrics;
  const [x, y] = [boxX(scene, row), boxY(scene, row)];
  const kind = graph.kind[row] as Kind;
  const state = graph.state[row] as State;
  const colours = theme.states[state]!;
  const actor = graph.actor[row]! - 1;
  const radius = kind === Kind.object ? height / 2 : 7;
  const hue = actor >= 0 ? actorColour(theme, actor) : '';

  if (kind === Kind.actor_creation) {
    // A second edge behind the first: an actor's creation lasts, calls come and go.
    pen.fillStyle = theme.surface;
    pen.strokeStyle = hue;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.roundRect(x + 3, y + 3, width, height, radius);
    pen.fill();
    pen.stroke();
  }
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
  pen.fillStyle = theme.surface;
  pen.fill();
  const isInherited = failedThrough(graph, row) !== NONE;
  const isCause = state === State.failed && !isInherited;
  pen.fillStyle = kind === Kind.object || isInherited ? theme.surface : isCause ? colours.solid : colours.tint;
  pen.fill();
  const glow =
    state === State.running ? 1 : isEnded(state) && kind !== Kind.object ? flash(scene, graph.changed[row]!) : 0;
  if (glow > 0) {
    const alpha = pen.globalAlpha;
    pen.globalAlpha = alpha * 0.22 * glow;
    pen.strokeStyle = colours.solid;
    pen.lineWidth = 5;
    pen.stroke();
    pen.globalAlpha = alpha;
  }
  const isLoud = state === State.running || state === State.failed || state === State.retrying;
  pen.strokeStyle =
    kind === Kind.actor_creation
      ? hue
      : isLoud
        ? colours.solid
        : state === State.waiting
          ? colours.solid
          : theme.border;
  pen.lineWidth = 1;
  pen.setLineDash(state === State.waiting ? [3, 3] : []);
  pen.stroke();
  pen.setLineDash([]);
  if (hue && kind === Kind.actor_call) {
    pen.fillStyle = hue;
    pen.beginPath();
    pen.roundRect(x + 3.5, y + 6, 2.5, height - 12, 1.25);
    pen.fill();
  }

  if (isElsewhere(scene, row)) {
    // A tab in the machine's hue at the lower edge.
    pen.fillStyle = nodeColour(theme, graph.nodeOf(row));
    pen.beginPath();
    pen.roundRect(x + 10, y + height - 2.5, width - 20, 4, 2);
    pen.fill();
  }
  const inset = kind === Kind.actor_call ? 4 : 0;
  const middle = y + height / 2;
  if (kind === Kind.object) {
    drawObjectMark(pen, theme.textSoft, x + 15, middle, 5.5);
  } else {
    drawMark(
      pen,
      theme,
      state,
      x + 15 + inset,
      middle,
      6.5,
      phase(scene),
      isCause ? 'inverse' : isInherited ? 'inherited' : 'own'
    );
  }
  const seconds = graph.duration(row, now);
  const note = kind === Kind.object ? size(graph.size[row]!) : duration(seconds);
  pen.textBaseline = 'middle';
  pen.font = `400 10.5px ${theme.font}`;
  let noteWidth = 0;
  if (note) {
    noteWidth = pen.measureText(note).width + 6;
    pen.fillStyle = isCause ? theme.inverse : state === State.running ? colours.solid : theme.textSoft;
    pen.textAlign = 'right';
    pen.fillText(note, x + width - 9, middle + 0.5);
  }
  pen.font = `500 12px ${theme.font}`;
  pen.fillStyle = isCause
    ? theme.inverse
    : state === State.waiting || state === State.cancelled
      ? theme.textSoft
      : theme.text;
  pen.textAlign = 'left';
  pen.fillText(ellipsis(pen, boxTitle(scene, row), width - 36 - inset - noteWidth), x + 27 + inset, middle + 0.5);
}

/** Whether a row ran on another machine, or was sent there. */
function isElsewhere({ graph }: Scene, row: number): boolean {
  return graph.worker[row]! > NO_WORKER;
}

/** The title of a box. Calls of an actor go without the class name, which their row shows already. */
function boxTitle({ graph }: Scene, row: number): string {
  const name = graph.name(row);
  return graph.kind[row] === Kind.actor_call ? name.slice(name.lastIndexOf('.') + 1) : name;
}

/** Above the first box of each cell stands the name of the cell. */
function drawCaptions(pen: Pen, scene: Scene): void {
  const { graph, layout, theme, camera, view } = scene;
  const area = seen(camera, view);
  pen.font = `600 10px ${theme.font}`;
  pen.textAlign = 'left';
  pen.textBaseline = 'alphabetic';
  pen.fillStyle = theme.textSoft;
  for (const row of layout.blockStarts.filter(row => row < layout.n)) {
    const [x, y] = [boxX(scene, row), boxY(scene, row)];
    if (y > area.y - 20 && y < area.y + area.height + 20 && x < area.x + area.width) {
      pen.globalAlpha = scene.lit ? DIMMED * 2 : 1;
      pen.fillText(graph.cellLabel(row)?.label ?? '', x + 2, y - 6);
    }
  }
  pen.globalAlpha = 1;
}

// ---- pills

function drawPill(pen: Pen, scene: Scene, row: number): void {
  const { graph, layout, theme, camera } = scene;
  const { width, height } = layout.metrics;
  const [x, y] = [boxX(scene, row), boxY(scene, row)];
  const state = graph.state[row] as State;
  const isObject = graph.kind[row] === Kind.object;
  const colour = isObject ? theme.edge : theme.states[state]!.solid;
  const hair = 1 / camera.zoom;
  pen.beginPath();
  pen.roundRect(x, y, width, height, isObject ? height / 2 : 8);
  const isInherited = failedThrough(graph, row) !== NONE;
  switch (isObject ? State.finished : isInherited ? State.cancelled : state) {
    case State.waiting:
    case State.cancelled:
      pen.fillStyle = theme.surface;
      pen.fill();
      pen.strokeStyle = colour;
      pen.lineWidth = hair;
      pen.stroke();
      break;
    case State.queued:
      pen.fillStyle = theme.states[State.waiting]!.solid;
      pen.fill();
      break;
    case State.finished:
      pen.fillStyle = isObject ? colour : theme.finishedCalm;
      pen.fill();
      break;
    default:
      pen.fillStyle = colour;
      pen.fill();
  }
  const actor = graph.actor[row]! - 1;
  if (actor >= 0 && !isObject) {
    pen.fillStyle = actorColour(theme, actor);
    pen.beginPath();
    pen.roundRect(x, y, 20, height, [8, 0, 0, 8]);
    pen.fill();
  }
  if (isElsewhere(scene, row)) {
    pen.fillStyle = nodeColour(theme, graph.nodeOf(row));
    pen.fillRect(x + 8, y + height - 7, width - 16, 7);
  }
  if (camera.zoom >= SIGNS_ZOOM) {
    drawSign(pen, scene, state, isObject, x + width / 2, y + height / 2, isInherited);
  }
  const glow = flash(scene, graph.changed[row]!);
  if (glow > 0 && isEnded(state) && !isObject) {
    pen.globalAlpha *= 0.5 * glow;
    pen.strokeStyle = colour;
    pen.lineWidth = 4 * hair;
    pen.beginPath();
    pen.roundRect(x, y, width, height, 8);
    pen.stroke();
  }
}

/** A simplified state's mark, large on its pill. Finished pills have none: they are the majority. */
function drawSign(
  pen: Pen,
  scene: Scene,
  state: State,
  isObject: boolean,
  x: number,
  y: number,
  isHollow: boolean
): void {
  const { theme } = scene;
  const r = 7;
  pen.lineCap = 'round';
  pen.lineWidth = 3.2;
  if (isObject) {
    drawObjectMark(pen, theme.textSoft, x, y, 8);
    return;
  }
  switch (state) {
    case State.failed:
      pen.strokeStyle = isHollow ? theme.states[state]!.solid : theme.inverse;
      pen.beginPath();
      pen.moveTo(x - r, y - r);
      pen.lineTo(x + r, y + r);
      pen.moveTo(x + r, y - r);
      pen.lineTo(x - r, y + r);
      pen.stroke();
      break;
    case State.cancelled:
      pen.strokeStyle = theme.states[state]!.solid;
      pen.beginPath();
      pen.moveTo(x - 2 * r, y + r);
      pen.lineTo(x + 2 * r, y - r);
      pen.stroke();
      break;
    case State.running:
    case State.retrying: {
      // A light that runs along the pill.
      const at = x + (phase(scene) * 2 - 1) * 46;
      pen.strokeStyle = theme.inverse;
      pen.lineWidth = 5;
      pen.beginPath();
      pen.moveTo(at - 8, y);
      pen.lineTo(at + 8, y);
      pen.stroke();
      break;
    }
    default:
  }
}

function drawOutline(pen: Pen, scene: Scene, row: number, isSelected: boolean): void {
  const { layout, theme, camera, graph } = scene;
  const { width, height } = layout.metrics;
  const hair = 1 / camera.zoom;
  const pad = 3 * Math.max(1, hair);
  pen.strokeStyle = theme.accent;
  pen.lineWidth = (isSelected ? 2.25 : 1.25) * Math.max(1, hair);
  pen.beginPath();
  const radius = (graph.kind[row] === Kind.object ? height / 2 : 7) + pad;
  pen.roundRect(boxX(scene, row) - pad, boxY(scene, row) - pad, width + 2 * pad, height + 2 * pad, radius);
  pen.stroke();
}
