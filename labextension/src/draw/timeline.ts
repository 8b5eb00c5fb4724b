// Draws the timeline: lanes, bars and the axis of time.

import { size } from '../i18n/format';
import { __ } from '../i18n/translate';
import type { Size } from '../layout/camera';
import { failedThrough } from '../model/failures';
import type { TaskGraph } from '../model/graph';
import { type Arranged, type Bar, type Scale, tickLabel, ticks } from '../model/views/timeline';
import { State } from '../protocol/messages';
import { actorColour, nodeColour, type Theme } from '../theme/theme';
import { ellipsis, type Pen } from './pen';

export const LANE_PX = 30;
export const AXIS_PX = 26;
/** Lanes' names stand left of the bars. */
export const NAMES_PX = 108;
const BAR_PX = 20;
const LABEL_PX = 34;
/** Loading is drawn as a bar of this share of the height, so that it differs by shape. */
const LOADING_SHARE = 0.4;
/** How much of a bar's colour is gone where its rank was in collectives all the time. */
const PALE = 0.6;
/** The mark of the slowest rank. */
const SLOWEST_PX = 4;

export interface TimelineScene {
  graph: TaskGraph;
  theme: Theme;
  arranged: Arranged;
  scale: Scale;
  view: Size;
  /** How far the lanes are scrolled. */
  top: number;
  now: number;
  hovered: number;
  selected: number;
  /** A stretch of time that was marked. */
  brush: readonly [number, number] | null;
  lit: ((row: number) => boolean) | null;
}

/** Functions differ by hue; hues repeat. */
export function functionColour(theme: Theme, fn: number): string {
  return theme.functions[fn % theme.functions.length]!;
}

/** An inherited failure is an outline. */
function isHollow({ graph }: TimelineScene, row: number): boolean {
  return failedThrough(graph, row) >= 0;
}

function colourOf({ graph, theme }: TimelineScene, row: number): string {
  const state = graph.state[row]!;
  return state === State.failed || state === State.cancelled
    ? theme.states[state]!.solid
    : functionColour(theme, graph.fn[row]!);
}

/** Where a bar is, in pixels of the view. */
export function barRect({ top }: Pick<TimelineScene, 'top'>, bar: Bar): [number, number, number, number] {
  const height = BAR_PX / bar.nTracks;
  const y = AXIS_PX + bar.lane * LANE_PX - top + (LANE_PX - BAR_PX) / 2 + bar.track * height;
  return [NAMES_PX + bar.x0, y, bar.x1 - bar.x0, height - (bar.nTracks > 1 ? 1 : 0)];
}

export function drawTimeline(pen: Pen, scene: TimelineScene): void {
  const { theme, view, arranged } = scene;
  pen.fillStyle = theme.background;
  pen.fillRect(0, 0, view.width, view.height);
  drawTicks(pen, scene);
  arranged.lanes.forEach((each, lane) => {
    const y = AXIS_PX + lane * LANE_PX - scene.top;
    pen.fillStyle = theme.grid;
    if (each.worker < 0) {
      pen.globalAlpha = 0.55;
      pen.fillRect(0, y, view.width, LANE_PX);
      pen.globalAlpha = 1;
    }
    pen.fillRect(0, y + LANE_PX - 1, view.width, 1);
  });
  drawLosses(pen, scene);
  drawCover(pen, scene);
  for (const bar of arranged.bars) {
    drawWays(pen, scene, bar);
  }
  for (const bar of arranged.bars) {
    drawBar(pen, scene, bar);
  }
  drawBrush(pen, scene);
  drawNames(pen, scene);
  drawAxis(pen, scene);
}

/** Marks when a machine was gone. */
function drawLosses(pen: Pen, { theme, graph, arranged, scale, view, top }: TimelineScene): void {
  arranged.lanes.forEach(({ node, worker }, lane) => {
    const ended = graph.nodes.get(node)?.ended ?? Infinity;
    const x = Math.max(NAMES_PX, NAMES_PX + (ended - scale.t0) * scale.pxPerS);
    if (x < view.width) {
      const y = AXIS_PX + lane * LANE_PX - top;
      pen.fillStyle = theme.states[State.failed]!.tint;
      pen.fillRect(x, y, view.width - x, LANE_PX - 1);
      pen.fillStyle = theme.states[State.failed]!.solid;
      pen.fillRect(x, y, 2, LANE_PX);
      if (worker < 0) {
        pen.font = `600 11px ${theme.font}`;
        pen.textAlign = 'left';
        pen.textBaseline = 'middle';
        pen.fillText(__('lost'), x + 8, y + LANE_PX / 2);
      }
    }
  });
}

function drawTicks(pen: Pen, { theme, scale, view }: TimelineScene): void {
  pen.fillStyle = theme.grid;
  for (const at of ticks(scale, view.width - NAMES_PX).at) {
    pen.fillRect(Math.round(NAMES_PX + (at - scale.t0) * scale.pxPerS), AXIS_PX, 1, view.height - AXIS_PX);
  }
}

/** Draws rows narrower than a bar pixel by pixel: the more of a pixel they cover, the stronger its colour. */
function drawCover(pen: Pen, scene: TimelineScene): void {
  const { theme, view, arranged, top } = scene;
  const { lanes, width, cover, coverFn, coverFailed } = arranged;
  for (let lane = 0; lane < lanes.length; lane++) {
    const y = AXIS_PX + lane * LANE_PX - top + (LANE_PX - BAR_PX) / 2;
    if (y + BAR_PX < AXIS_PX || y > view.height) {
      continue;
    }
    for (let x = 0; x < width; x++) {
      const at = lane * width + x;
      const strength = shade(cover[at]!);
      if (!strength) {
        continue;
      }
      let end = x + 1;
      const isSame = (next: number) =>
        shade(cover[next]!) === strength && coverFn[next] === coverFn[at] && coverFailed[next] === coverFailed[at];
      while (end < width && isSame(lane * width + end)) {
        end++;
      }
      pen.globalAlpha = coverFailed[at] ? 1 : strength;
      pen.fillStyle = coverFailed[at] ? theme.states[State.failed]!.solid : functionColour(theme, coverFn[at]!);
      pen.fillRect(NAMES_PX + x, y, end - x, BAR_PX);
      pen.globalAlpha = 1;
      x = end - 1;
    }
  }
}

/** Few steps, so that neighbours are drawn together. */
function shade(cover: number): number {
  return cover > 0 ? 0.3 + 0.7 * Math.min(1, Math.ceil(cover * 5) / 5) : 0;
}

/** Draws the ways to another machine and back, at half the height of a bar. */
function drawWays(pen: Pen, scene: TimelineScene, bar: Bar): void {
  const [, y, , height] = barRect(scene, bar);
  const { view, lit } = scene;
  if (
    bar.kind === 'transfer' ||
    (bar.from === bar.x0 && bar.to === bar.x1) ||
    y + height < AXIS_PX ||
    y > view.height
  ) {
    return;
  }
  pen.fillStyle = bar.kind === 'lost' ? scene.theme.states[State.failed]!.solid : colourOf(scene, bar.row);
  pen.globalAlpha = lit && !lit(bar.row) ? 0.15 : 0.75;
  for (const [from, to] of [
    [bar.from, bar.x0],
    [bar.x1, bar.to]
  ] as const) {
    const left = Math.max(NAMES_PX, NAMES_PX + from);
    const right = Math.min(view.width, NAMES_PX + to);
    if (right - left >= 0.5) {
      pen.fillRect(left, y + height / 2 - 1, right - left, 2);
      pen.fillRect(from < bar.x0 ? left : right - 1.5, y + height / 4, 1.5, height / 2);
    }
  }
  pen.globalAlpha = 1;
}

/** Draws attempts that were lost with a machine: outlined, with a cross at the time they were given up. */
function drawLost(pen: Pen, scene: TimelineScene, bar: Bar): void {
  const { theme, graph, view } = scene;
  const [x, y, width, height] = barRect(scene, bar);
  const left = Math.max(NAMES_PX - 2, x);
  const right = Math.min(view.width + 2, x + width);
  const colour = theme.states[State.failed]!.solid;
  pen.fillStyle = theme.states[State.failed]!.tint;
  pen.fillRect(left, y, right - left, height);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.25;
  pen.setLineDash([3, 2]);
  pen.strokeRect(left + 0.5, y + 0.5, Math.max(1, right - left - 1), height - 1);
  pen.setLineDash([]);
  if (right - left > LABEL_PX && height > 11) {
    pen.font = `500 11px ${theme.font}`;
    pen.textAlign = 'left';
    pen.textBaseline = 'middle';
    pen.fillStyle = colour;
    pen.fillText(
      ellipsis(pen, bar.row < 0 ? __('lost') : `${graph.name(bar.row)} ✕`, right - left - 12),
      left + 6,
      y + height / 2 + 0.5
    );
  }
}

function drawTransfer(pen: Pen, scene: TimelineScene, bar: Bar): void {
  const { theme, graph, view } = scene;
  const [x, y, width, height] = barRect(scene, bar);
  const transfer = graph.transfers[bar.index]!;
  const left = Math.max(NAMES_PX, x);
  const right = Math.min(view.width + 2, x + width);
  const isLost = !transfer.complete && transfer.ended < scene.now;
  pen.fillStyle = isLost ? theme.states[State.failed]!.solid : transfer.comes ? theme.transfers[0] : theme.transfers[1];
  pen.globalAlpha = transfer.ended > scene.now ? 0.5 : 1;
  pen.fillRect(left, y, Math.max(1, right - left), height);
  pen.globalAlpha = 1;
  if (right - left > LABEL_PX + 20 && height > 11) {
    pen.font = `500 10.5px ${theme.font}`;
    pen.textAlign = 'left';
    pen.textBaseline = 'middle';
    pen.fillStyle = theme.inverse;
    pen.fillText(
      ellipsis(pen, `${transfer.comes ? '←' : '→'} ${size(transfer.size)}`, right - left - 10),
      left + 5,
      y + height / 2 + 0.5
    );
  }
}

function drawBar(pen: Pen, scene: TimelineScene, bar: Bar): void {
  const { theme, graph, view, hovered, selected, lit } = scene;
  const [x, y, width, height] = barRect(scene, bar);
  if (y + height < AXIS_PX || y > view.height) {
    return;
  }
  if (bar.kind !== 'run') {
    (bar.kind === 'lost' ? drawLost : drawTransfer)(pen, scene, bar);
    return;
  }
  // Bars may reach far out of the view; canvases lose precision there.
  const left = Math.max(NAMES_PX - 2, x);
  const right = Math.min(view.width + 2, x + width);
  const isRunning = graph.state[bar.row] === State.running;
  const colour = colourOf(scene, bar.row);
  const alpha = lit && !lit(bar.row) ? 0.2 : 1;
  const call = Math.min(right, Math.max(left, NAMES_PX + bar.xCall));
  pen.globalAlpha = isRunning ? 0.4 * alpha : alpha;
  pen.fillStyle = colour;
  if (call - left >= 1) {
    pen.fillRect(left, y + (height * (1 - LOADING_SHARE)) / 2, call - left, height * LOADING_SHARE);
  }
  const length = Math.max(1, right - call - (right - call > 4 ? 1 : 0));
  if (isHollow(scene, bar.row)) {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.25;
    pen.strokeRect(call + 0.5, y + 0.5, Math.max(1, length - 1), height - 1);
  } else {
    pen.fillRect(call, y, length, height);
  }
  drawCollectives(pen, scene, bar, [call, y, right - call, height]);
  pen.globalAlpha = alpha;
  if (bar.awaited) {
    pen.fillStyle = theme.states[State.retrying]!.solid;
    pen.fillRect(left, y + height - SLOWEST_PX, right - left, SLOWEST_PX);
  }
  if (isRunning && right <= view.width) {
    pen.fillStyle = theme.states[State.running]!.solid;
    pen.fillRect(right - 3, y, 3, height);
  }
  if (right - call > LABEL_PX && height > 11) {
    pen.font = `500 11px ${theme.font}`;
    pen.textAlign = 'left';
    pen.textBaseline = 'middle';
    const isPale = isRunning || isHollow(scene, bar.row) || isLabelPale(bar, call - NAMES_PX);
    pen.fillStyle = isPale ? theme.text : theme.inverse;
    pen.fillText(ellipsis(pen, graph.name(bar.row), right - call - 12), call + 6, y + height / 2 + 0.5);
  }
  if (bar.row === selected || bar.row === hovered) {
    pen.strokeStyle = bar.row === selected ? theme.text : theme.textSoft;
    pen.lineWidth = bar.row === selected ? 2 : 1.25;
    pen.strokeRect(left - 1, y - 1, right - left + 1, height + 2);
  }
  pen.globalAlpha = 1;
}

/** Whether what lies under a bar's name, from x on, is mostly time in collectives. */
function isLabelPale({ collectives }: Bar, x: number): boolean {
  const covered = collectives.map(
    ({ x0, x1, share }) => share * Math.max(0, Math.min(x1, x + 2 * LABEL_PX) - Math.max(x0, x))
  );
  return covered.reduce((sum, each) => sum + each, 0) > LABEL_PX;
}

/** Draws the time in collectives paler, the more so the more of it was. */
function drawCollectives(
  pen: Pen,
  { theme }: TimelineScene,
  bar: Bar,
  [x, y, width, height]: readonly [number, number, number, number]
): void {
  pen.fillStyle = theme.background;
  for (const { x0, x1, share } of bar.collectives) {
    const left = Math.max(x, NAMES_PX + x0);
    const right = Math.min(x + width, NAMES_PX + x1);
    if (right > left) {
      pen.globalAlpha = PALE * share;
      pen.fillRect(left, y, Math.max(0.5, right - left), height);
    }
  }
}

function drawBrush(pen: Pen, { brush, theme, scale, view }: TimelineScene): void {
  if (brush) {
    const [x0, x1] = brush.map(at => NAMES_PX + (at - scale.t0) * scale.pxPerS) as [number, number];
    const left = Math.max(NAMES_PX, x0);
    const right = Math.min(view.width, x1);
    if (right > left) {
      pen.globalAlpha = 0.12;
      pen.fillStyle = theme.accent;
      pen.fillRect(left, AXIS_PX, right - left, view.height - AXIS_PX);
      pen.globalAlpha = 1;
      pen.fillRect(left, AXIS_PX, 1, view.height - AXIS_PX);
      pen.fillRect(right - 1, AXIS_PX, 1, view.height - AXIS_PX);
    }
  }
}

function drawNames(pen: Pen, { theme, graph, arranged, top, view }: TimelineScene): void {
  pen.fillStyle = theme.background;
  pen.fillRect(0, AXIS_PX, NAMES_PX - 1, view.height - AXIS_PX);
  pen.textBaseline = 'middle';
  pen.textAlign = 'left';
  const isGrouped = arranged.lanes.some(({ worker }) => worker < 0);
  const groups = [...new Set(arranged.lanes.map(({ group }) => group).filter(Boolean))];
  arranged.lanes.forEach(({ title, detail, worker, node, group }, lane) => {
    const y = AXIS_PX + lane * LANE_PX - top + LANE_PX / 2;
    const isFirst = arranged.lanes[lane - 1]?.group !== group;
    const isLast = arranged.lanes[lane + 1]?.group !== group;
    if (y > AXIS_PX - LANE_PX && y < view.height + LANE_PX) {
      const isMachine = worker < 0;
      if (isGrouped) {
        pen.fillStyle = theme.grid;
        pen.globalAlpha = isMachine ? 0.55 : 0;
        pen.fillRect(0, y - LANE_PX / 2, NAMES_PX - 1, LANE_PX);
        pen.globalAlpha = 1;
        pen.fillStyle = nodeColour(theme, node);
        pen.fillRect(0, y - LANE_PX / 2, isMachine ? 5 : 3, LANE_PX);
      }
      if (group) {
        pen.fillStyle = actorColour(theme, groups.indexOf(group));
        pen.fillRect(
          NAMES_PX - 6,
          y - LANE_PX / 2 + (isFirst ? 4 : 0),
          3,
          LANE_PX - (isFirst ? 4 : 0) - (isLast ? 4 : 0)
        );
      }
      const inset = isGrouped && !isMachine ? 18 : 12;
      pen.font = `${isMachine ? 700 : 500} 11.5px ${theme.font}`;
      pen.fillStyle = theme.text;
      pen.fillText(ellipsis(pen, title, NAMES_PX - 6 - inset), inset, y - 6);
      pen.font = `400 10px ${theme.font}`;
      pen.fillStyle =
        isMachine && graph.nodes.get(node)?.state === 'dead' ? theme.states[State.failed]!.solid : theme.textSoft;
      pen.fillText(ellipsis(pen, detail, NAMES_PX - 6 - inset), inset, y + 7);
    }
  });
  pen.fillStyle = theme.border;
  pen.fillRect(NAMES_PX - 1, AXIS_PX, 1, view.height - AXIS_PX);
}

function drawAxis(pen: Pen, { theme, scale, view }: TimelineScene): void {
  pen.fillStyle = theme.background;
  pen.fillRect(0, 0, view.width, AXIS_PX);
  pen.fillStyle = theme.border;
  pen.fillRect(0, AXIS_PX - 1, view.width, 1);
  pen.font = `400 10.5px ${theme.font}`;
  pen.fillStyle = theme.textSoft;
  pen.textBaseline = 'middle';
  pen.textAlign = 'left';
  const { at, step } = ticks(scale, view.width - NAMES_PX);
  for (const time of at) {
    const x = Math.round(NAMES_PX + (time - scale.t0) * scale.pxPerS);
    pen.fillText(tickLabel(time, step), x + 4, AXIS_PX / 2);
  }
}
