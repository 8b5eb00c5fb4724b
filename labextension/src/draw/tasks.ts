// The graph box by box: with names while they can be read, as small pills below that.

import { seen } from '../camera';
import { duration, size } from '../format';
import { NONE } from '../layout';
import { type TaskGraph, isEnded } from '../model';
import { Kind, NO_WORKER, State } from '../protocol';
import { drawMark, drawObjectMark } from './marks';
import { type Pen, ellipsis } from './pen';
import { DIMMED, type Scene, boxX, boxY, connect, enterWorld, fadeIn, flash, leadRound, phase } from './scene';
import { actorColour, nodeColour } from './theme';

/** Names are drawn from this zoom on. */
export const NAMES_ZOOM = 0.5;
/** Signs on pills are drawn from this zoom on. */
const SIGNS_ZOOM = 0.2;
/** More lines than this are a grey mass; those of the boxes first seen are drawn. */
const EDGES_MAX = 4000;
/** So many are led round the boxes between; more could not be told apart. */
const LED_MAX = 800;

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

// ---- edges

type EdgeStyle = 'open' | 'done' | 'away' | 'lit' | 'nested' | 'dimmed';

function drawEdges(pen: Pen, scene: Scene, rows: readonly number[]): void {
  const { graph, theme, camera } = scene;
  const lines: Record<EdgeStyle, number[]> = { open: [], done: [], away: [], lit: [], nested: [], dimmed: [] };
  const lanes = new Map<number, number[]>();
  const shown = new Set(rows);
  let budget = EDGES_MAX;
  const add = (source: number, target: number) => {
    if (budget-- > 0) {
      lines[edgeStyle(scene, source, target)].push(source, target);
    }
  };
  for (const row of rows) {
    for (const source of graph.dependencies(row)) {
      add(source, row);
    }
    for (const target of graph.dependents(row)) {
      if (!shown.has(target)) {
        add(row, target);
      }
    }
    const submitter = graph.parent[row]! - 1;
    if (submitter >= 0 && graph.dependencies(row).next().done && budget-- > 0) {
      lines[scene.lit ? edgeStyle(scene, submitter, row) : 'nested'].push(submitter, row);
    }
    const previous = graph.previousCall[row]!;
    if (previous !== NONE) {
      const actor = graph.actor[row]! - 1;
      lanes.set(actor, [...(lanes.get(actor) ?? []), previous, row]);
    }
  }
  const draw = EDGES_MAX - budget <= LED_MAX ? leadRound : connect;
  const hair = 1 / Math.max(camera.zoom, 0.35);
  // Among small pills lines are many: they step back.
  const strength = camera.zoom >= NAMES_ZOOM ? 1 : 0.55;
  for (const [actor, pairs] of lanes) {
    strokeAll(pen, scene, draw, pairs, actorColour(theme, actor), Math.max(3, 2.2 * hair), scene.lit ? 0.12 : 0.34);
  }
  strokeAll(pen, scene, draw, lines.dimmed, theme.edge, hair, 0.2);
  pen.setLineDash([2, 5]);
  strokeAll(pen, scene, draw, lines.nested, theme.textSoft, hair, 0.6);
  pen.setLineDash([]);
  strokeAll(pen, scene, draw, lines.done, theme.edgeDone, hair, 0.85 * strength);
  strokeAll(pen, scene, draw, lines.open, theme.edge, hair, strength);
  if (lines.away.length) {
    pen.setLineDash([5, 4]);
    strokeAll(pen, scene, draw, lines.away, theme.transfers[1], hair, 0.65 * strength);
    pen.setLineDash([]);
  }
  strokeAll(pen, scene, draw, lines.lit, theme.accent, 1.6 * hair, 0.9);
}

function edgeStyle({ graph, lit, hovered }: Scene, source: number, target: number): EdgeStyle {
  if (lit && !(lit(source) && lit(target))) {
    return 'dimmed';
  }
  if (source === hovered || target === hovered) {
    return 'lit';
  }
  if (graph.isClustered && hasMoved(graph, source, target)) {
    return 'away';
  }
  return graph.state[source] === State.finished && graph.state[target] === State.finished ? 'done' : 'open';
}

/** Whether a value had to travel to whom it was for. */
function hasMoved(graph: TaskGraph, source: number, target: number): boolean {
  return graph.worker[target] !== NO_WORKER && graph.nodeOf(source) !== graph.nodeOf(target);
}

function strokeAll(pen: Pen, scene: Scene, draw: typeof connect, pairs: readonly number[], colour: string, width: number, alpha: number): void {
  if (!pairs.length) {
    return;
  }
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.globalAlpha = alpha;
  pen.lineCap = 'round';
  pen.beginPath();
  for (let i = 0; i < pairs.length; i += 2) {
    draw(pen, scene, pairs[i]!, pairs[i + 1]!);
  }
  pen.stroke();
  pen.globalAlpha = 1;
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
    // A second edge behind the first: this box stays, calls come and go.
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
  pen.fillStyle = kind === Kind.object ? theme.surface : colours.tint;
  pen.fill();
  const glow = state === State.running ? 1 : isEnded(state) && kind !== Kind.object ? flash(scene, graph.changed[row]!) : 0;
  if (glow > 0) {
    const alpha = pen.globalAlpha;
    pen.globalAlpha = alpha * 0.22 * glow;
    pen.strokeStyle = colours.solid;
    pen.lineWidth = 5;
    pen.stroke();
    pen.globalAlpha = alpha;
  }
  const isLoud = state === State.running || state === State.failed || state === State.retrying;
  pen.strokeStyle = kind === Kind.actor_creation ? hue : isLoud ? colours.solid : state === State.waiting ? colours.solid : theme.border;
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
    drawMark(pen, theme, state, x + 15 + inset, middle, 6.5, phase(scene));
  }
  const seconds = graph.duration(row, now);
  const note = kind === Kind.object ? size(graph.size[row]!) : duration(seconds);
  pen.textBaseline = 'middle';
  pen.font = `400 10.5px ${theme.font}`;
  let noteWidth = 0;
  if (note) {
    noteWidth = pen.measureText(note).width + 6;
    pen.fillStyle = state === State.running ? colours.solid : theme.textSoft;
    pen.textAlign = 'right';
    pen.fillText(note, x + width - 9, middle + 0.5);
  }
  pen.font = `500 12px ${theme.font}`;
  pen.fillStyle = state === State.waiting || state === State.cancelled ? theme.textSoft : theme.text;
  pen.textAlign = 'left';
  pen.fillText(ellipsis(pen, boxTitle(scene, row), width - 36 - inset - noteWidth), x + 27 + inset, middle + 0.5);
}

/** Whether it ran on another machine than this one, or was sent there. */
function isElsewhere({ graph }: Scene, row: number): boolean {
  return graph.worker[row]! > NO_WORKER;
}

/** What a box is called: an actor's calls lose the class name where the lane says it already. */
function boxTitle({ graph }: Scene, row: number): string {
  const name = graph.name(row);
  return graph.kind[row] === Kind.actor_call ? name.slice(name.lastIndexOf('.') + 1) : name;
}

/** Above the first box of each cell stands which cell it is. */
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
  switch (isObject ? State.finished : state) {
    case State.waiting:
    case State.cancelled:
      pen.fillStyle = theme.surface;
      pen.fill();
      pen.strokeStyle = colour;
      pen.lineWidth = hair;
      pen.stroke();
      break;
    case State.ready:
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
    drawSign(pen, scene, state, isObject, x + width / 2, y + height / 2);
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

/** The essence of the state's mark, large on its pill. Finished pills stay plain: they are the calm majority. */
function drawSign(pen: Pen, scene: Scene, state: State, isObject: boolean, x: number, y: number): void {
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
      pen.strokeStyle = theme.inverse;
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
