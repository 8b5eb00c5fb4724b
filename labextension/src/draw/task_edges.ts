// Draws the edges between tasks. Edges of lit and of running tasks stand out.

import type { TaskGraph } from '../model/graph';
import { NONE } from '../model/rows';
import { NO_WORKER, State } from '../protocol/messages';
import { actorColour } from '../theme/theme';
import { type Pen } from './pen';
import { connect, leadRound, NAMES_ZOOM, type Scene } from './scene';

/** More lines than this would be a grey mass; the edges of the first boxes are drawn. */
const EDGES_MAX = 4000;
/** At most this many are routed round other boxes; more could not be told apart. */
const LED_MAX = 800;

type EdgeStyle = 'open' | 'done' | 'moved' | 'lit' | 'nested' | 'dimmed';

export function drawEdges(pen: Pen, scene: Scene, rows: readonly number[]): void {
  const { graph, theme, camera } = scene;
  const lines: Record<EdgeStyle, number[]> = { open: [], done: [], moved: [], lit: [], nested: [], dimmed: [] };
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
  // Among small pills there are many lines, so they are paler.
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
  if (lines.moved.length) {
    pen.setLineDash([5, 4]);
    strokeAll(pen, scene, draw, lines.moved, theme.transfers[1], hair, 0.65 * strength);
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
    return 'moved';
  }
  return graph.state[source] === State.finished && graph.state[target] === State.finished ? 'done' : 'open';
}

/** Whether a value had to travel to another machine. */
function hasMoved(graph: TaskGraph, source: number, target: number): boolean {
  return graph.worker[target] !== NO_WORKER && graph.nodeOf(source) !== graph.nodeOf(target);
}

function strokeAll(
  pen: Pen,
  scene: Scene,
  draw: typeof connect,
  pairs: readonly number[],
  colour: string,
  width: number,
  alpha: number
): void {
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
