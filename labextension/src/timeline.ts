// When tasks ran, and where: a lane for each worker, a bar for each task. Pure.
//
// Nothing is kept between pictures: one pass over the columns decides for each row whether it is seen, as a bar of its
// own or, narrower than that, as a share of the pixels it covers. That is fast enough for a million rows, and cannot be
// out of date.

import { duration, size } from './format';
import type { TaskGraph } from './model';
import { Kind, NO_WORKER, State } from './protocol';
import { __, _n } from './text';

/** Seconds since the session began at the left edge, and how many pixels a second takes. */
export interface Scale {
  t0: number;
  pxPerS: number;
}

export interface Lane {
  worker: number;
  title: string;
  detail: string;
}

export interface Bar {
  row: number;
  lane: number;
  x0: number;
  x1: number;
  /** Bars of one lane that overlap (an actor's concurrent calls) share its height. */
  track: number;
  nTracks: number;
}

export interface Arranged {
  lanes: Lane[];
  bars: Bar[];
  /** For each lane and pixel column how much of it is covered by bars too narrow to draw, and by a row of which function. */
  width: number;
  cover: Float32Array;
  coverFn: Uint32Array;
  /** Columns in which one of them failed. */
  coverFailed: Uint8Array;
}

/** Narrower bars are drawn together. */
const BAR_PX = 2;
const N_BARS_MAX = 4000;
/** A pixel is at least a tenth of a microsecond: clocks are no finer. */
export const PX_PER_S_MAX = 1e7;

/** Where a row begins and ends, or null if it has not run or nobody knows how long. */
export function spanOf(graph: TaskGraph, row: number, now: number): [number, number] | null {
  const start = graph.started[row]!;
  const end = graph.state[row] === State.running ? now : graph.finished[row]!;
  return graph.worker[row] !== NO_WORKER && end >= start ? [start, end] : null;
}

/** The stretch of time in which there was work: from the first submission to the last end, or to now. */
export function extent(graph: TaskGraph, now: number): [number, number] {
  let [from, to] = [Infinity, -Infinity];
  const { n, submitted, finished, state } = graph;
  for (let row = 0; row < n; row++) {
    const end = state[row] === State.running ? now : finished[row]!;
    from = submitted[row]! < from ? submitted[row]! : from;
    to = end > to ? end : to;
  }
  return to > from ? [from, to] : [Math.min(from, now), now + 1];
}

/** The lanes: every worker that has run something or is there to. */
function lanesOf(graph: TaskGraph, used: Uint8Array, actorOf: Int32Array): Lane[] {
  return [...graph.workers]
    .filter(([worker, { state }]) => used[worker] || state !== 'dead')
    .sort(([a], [b]) => a - b)
    .map(([worker, { pid, state }]) => {
      const actor = graph.actors.get(actorOf[worker]!);
      const title = actor ? actor.name || actor.cls : __('worker');
      return { worker, title, detail: state === 'dead' ? __('%1, ended', pid) : state === 'blocked' ? __('%1, waits', pid) : String(pid) };
    });
}

export function arrange(graph: TaskGraph, { t0, pxPerS }: Scale, width: number, now: number): Arranged {
  const used = new Uint8Array(256);
  const actorOf = new Int32Array(256).fill(-1);
  const { n, worker, actor, state, started, finished, fn } = graph; // columns at hand: the loops are over every row
  for (let row = 0; row < n; row++) {
    used[worker[row]!] = 1;
    if (actor[row]) {
      actorOf[worker[row]!] = actor[row]! - 1;
    }
  }
  const lanes = lanesOf(graph, used, actorOf);
  const laneOf = new Int32Array(256).fill(-1);
  lanes.forEach((each, lane) => {
    laneOf[each.worker] = lane;
  });
  const bars: Bar[] = [];
  const cover = new Float32Array(lanes.length * width);
  const coverFn = new Uint32Array(lanes.length * width);
  const coverFailed = new Uint8Array(lanes.length * width);
  const t1 = t0 + width / pxPerS;
  for (let row = 0; row < n; row++) {
    const lane = laneOf[worker[row]!]!;
    const start = started[row]!;
    const end = state[row] === State.running ? now : finished[row]!;
    if (lane < 0 || !(start < t1 && end > t0 && end >= start)) {
      continue;
    }
    const x0 = (start - t0) * pxPerS;
    const x1 = (end - t0) * pxPerS;
    if (x1 - x0 >= BAR_PX && bars.length < N_BARS_MAX) {
      bars.push({ row, lane, x0, x1, track: 0, nTracks: 1 });
      continue;
    }
    const isFailed = Number(state[row] === State.failed);
    for (let x = Math.max(0, Math.floor(x0)); x < width && x <= x1; x++) {
      const at = lane * width + x;
      cover[at] = cover[at]! + Math.max(0.02, Math.min(x1, x + 1) - Math.max(x0, x));
      coverFn[at] = fn[row]!;
      coverFailed[at] = coverFailed[at]! | isFailed;
    }
  }
  share(bars);
  return { lanes, bars, width, cover, coverFn, coverFailed };
}

/** Give overlapping bars of a lane a track each. */
function share(bars: Bar[]): void {
  bars.sort((a, b) => a.lane - b.lane || a.x0 - b.x0);
  let cluster: Bar[] = [];
  let ends: number[] = [];
  const close = () => {
    for (const bar of cluster) {
      bar.nTracks = ends.length;
    }
    cluster = [];
    ends = [];
  };
  for (const bar of bars) {
    const last = cluster[cluster.length - 1];
    if (last && (last.lane !== bar.lane || ends.every(end => end <= bar.x0))) {
      close();
    }
    const free = ends.findIndex(end => end <= bar.x0);
    bar.track = free < 0 ? ends.length : free;
    ends[bar.track] = bar.x1;
    cluster.push(bar);
  }
  close();
}

/** When the last thing a row depends on was there: from then on it only waited for a place to run. */
export function readyAt(graph: TaskGraph, row: number): number {
  let ready = graph.submitted[row]!;
  for (const source of graph.dependencies(row)) {
    const end = graph.finished[source]!;
    ready = end > ready ? end : ready;
  }
  return ready;
}

/** A row's time in words: what it waited for, how long it ran. */
export function story(graph: TaskGraph, row: number, now: number): string[] {
  const lines: string[] = [];
  const submitted = graph.submitted[row]!;
  const started = graph.started[row]!;
  const ready = readyAt(graph, row);
  if (ready > submitted) {
    lines.push(__('%1 until its inputs were there', duration(Math.min(ready, started) - submitted)));
  }
  if (started > ready) {
    lines.push(__('%1 in the queue', duration(started - ready)));
  }
  const ran = graph.duration(row, now);
  if (!Number.isNaN(ran)) {
    lines.push(graph.state[row] === State.running ? __('runs for %1', duration(ran)) : __('ran %1', duration(ran)));
  }
  return lines;
}

/** Memory that is fuller than that holds tasks up, or has some of them ended. */
const TIGHT = 0.93;

/** Why a worker did nothing at a time: it was not there, or what was ready wanted more than was free, or nothing was ready. */
export function gapReason(graph: TaskGraph, at: number, worker = NO_WORKER): string[] {
  const life = graph.workers.get(worker);
  if (life && (life.since > at || life.ended < at)) {
    return [life.since > at ? __('this process had not begun yet') : __('this process had ended')];
  }
  let [waiting, queued, running] = [0, 0, 0];
  const awaited = new Map<string, number>();
  for (let row = 0; row < graph.n; row++) {
    const started = graph.started[row]!;
    const finished = graph.finished[row]!;
    if (graph.kind[row] === Kind.object || !(graph.submitted[row]! <= at) || finished <= at) {
      continue;
    }
    if (started <= at) {
      running++;
    } else if (readyAt(graph, row) <= at) {
      queued++;
    } else {
      waiting++;
      for (const source of graph.dependencies(row)) {
        if (!(graph.finished[source]! <= at)) {
          awaited.set(graph.name(source), (awaited.get(graph.name(source)) ?? 0) + 1);
        }
      }
    }
  }
  if (queued) {
    return [_n('%2 task queued:', '%2 tasks queued:', queued), held(graph, at, running)];
  }
  if (waiting) {
    const [name] = [...awaited].sort(([, a], [, b]) => b - a)[0] ?? [__('what had yet to finish')];
    return [__('nothing was ready:'), _n('%2 task waited for %3', '%2 tasks waited for %3', waiting, name)];
  }
  return [running ? _n('nothing else was to do while %2 task ran', 'nothing else was to do while %2 tasks ran', running) : __('nothing was to do')];
}

/** What held queued tasks up, as far as it was noted: a resource that was all taken, or memory. */
function held(graph: TaskGraph, at: number, running: number): string {
  const { cpus, gpus, memory } = graph.resourcesAt(at);
  const node = graph.nodes.get(0);
  const total = graph.resources.total;
  if (node && memory > TIGHT * node.memory) {
    return __('memory was nearly full: %1 of %2', size(memory), size(node.memory));
  }
  if (!running) {
    return __('what they ask for was not free');
  }
  if ((total['CPU'] ?? 0) > 0 && cpus >= total['CPU']!) {
    return _n('all CPUs were taken by the %2 that ran', 'all CPUs were taken by the %2 that ran', running);
  }
  if ((total['GPU'] ?? 0) > 0 && gpus >= total['GPU']!) {
    return __('all GPUs were taken');
  }
  return _n('what they ask for was taken by the %2 that ran', 'what they ask for was taken by the %2 that ran', running);
}

// ---- the scale

/** Times to mark, about `px` apart, in round numbers; `digits` of a second are needed to tell them apart. */
export function ticks({ t0, pxPerS }: Scale, width: number, px = 90): { at: number[]; step: number } {
  const raw = px / pxPerS;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 5, 10].find(factor => factor * unit >= raw) ?? 10);
  const at: number[] = [];
  for (let k = Math.ceil(t0 / step); k * step <= t0 + width / pxPerS; k++) {
    at.push(k * step || 0); // not -0
  }
  return { at, step };
}

/** A tick's label: 1.25 s, 340 ms; in units that fit the step. */
export function tickLabel(at: number, step: number): string {
  const [factor, unit] = step >= 1 ? [1, 's'] : step >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  const digits = Math.max(0, Math.ceil(-Math.log10(step * factor) - 1e-9));
  return `${(at * factor).toLocaleString(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits })}\u00a0${unit}`;
}

/** Zoom in time, keeping what is under a pixel where it is. */
export function zoomTime({ t0, pxPerS }: Scale, x: number, factor: number): Scale {
  const zoomed = Math.min(PX_PER_S_MAX, Math.max(1e-4, pxPerS * factor));
  return { t0: t0 + x / pxPerS - x / zoomed, pxPerS: zoomed };
}

/** All of a stretch of time, with a little room. */
export function fitTime([from, to]: readonly [number, number], width: number): Scale {
  const pxPerS = Math.min(PX_PER_S_MAX, (0.96 * width) / Math.max(1e-6, to - from));
  return { t0: from - (0.02 * width) / pxPerS, pxPerS };
}
