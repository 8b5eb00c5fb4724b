// When tasks ran, and where: a lane for each worker, a bar for each task. Pure.
//
// Nothing is kept between pictures: one pass over the columns decides for each row whether it is seen, as a bar of its
// own or, narrower than that, as a share of the pixels it covers. That is fast enough for a million rows, and cannot be
// out of date.

import { duration, size } from './format';
import type { TaskGraph } from './model';
import { Kind, NO_WORKER, State, type Transfer } from './protocol';
import { __, _n } from './text';

/** Seconds since the session began at the left edge, and how many pixels a second takes. */
export interface Scale {
  t0: number;
  pxPerS: number;
}

export interface Lane {
  /** NONE: the lane of a machine, in which stands what travels between it and this one. */
  worker: number;
  node: number;
  title: string;
  detail: string;
}

export interface Bar {
  /** NONE: a value without a row. */
  row: number;
  lane: number;
  x0: number;
  x1: number;
  /** Where the user's code begins: at x0 unless loading code and arguments took long. */
  xCall: number;
  /** Of what ran elsewhere: where it was sent, and where its result was here; else `x0` and `x1`. */
  from: number;
  to: number;
  kind: 'run' | 'lost' | 'transfer';
  /** The number of a loss or a transfer. */
  index: number;
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
const NONE = -1;
const BAR_PX = 2;
const N_BARS_MAX = 4000;
/** A pixel is at least a tenth of a microsecond: clocks are no finer. */
export const PX_PER_S_MAX = 1e7;

/** Where a row begins and ends, or null if it has not run or nobody knows how long. */
export function spanOf(graph: TaskGraph, row: number, now: number): [number, number] | null {
  const start = graph.started[row]!;
  const end = graph.state[row] === State.running ? now : graph.endOf(row);
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

/** The lanes: every worker that has run something or is there to; where there are several machines, those of each beneath its own. */
function lanesOf(graph: TaskGraph, used: Uint8Array, actorOf: Int32Array): Lane[] {
  const workers = [...graph.workers]
    .filter(([worker, { state, pid, node }]) => used[worker] || (state !== 'dead' && (pid || !node)))
    .sort(([a, { node }], [b, { node: other }]) => node - other || a - b)
    .map(([worker, { pid, state, node }]): Lane => {
      const actor = graph.actors.get(actorOf[worker]!);
      const title = actor ? actor.name || actor.cls : pid ? __('worker') : __('under way');
      const detail = state === 'dead' ? __('%1, ended', pid) : state === 'blocked' ? __('%1, waits', pid) : pid ? String(pid) : __('sent, not begun');
      return { worker, node, title, detail };
    });
  if (!graph.isClustered) {
    return workers;
  }
  const nodes = new Set([0, ...[...graph.nodes.keys()].sort((a, b) => a - b), ...workers.map(({ node }) => node)]);
  return [...nodes].flatMap(node => [machineLane(graph, node), ...workers.filter(lane => lane.node === node)]);
}

function machineLane(graph: TaskGraph, node: number): Lane {
  const label = graph.nodes.get(node);
  const detail = label?.state === 'dead' ? __('lost') : label?.state === 'draining' ? __('draining') : !node ? __('this machine') : label ? _n('%2 CPU', '%2 CPUs', label.cpus) : '';
  return { worker: NONE, node, title: graph.nodeName(node), detail };
}

export function arrange(graph: TaskGraph, { t0, pxPerS }: Scale, width: number, now: number): Arranged {
  const limit = graph.workerLimit;
  const used = new Uint8Array(limit);
  const actorOf = new Int32Array(limit).fill(-1);
  const { n, worker, actor, state, started, finished, sent, ended, called, fn } = graph; // columns at hand: the loops are over every row
  for (let row = 0; row < n; row++) {
    used[worker[row]!] = 1;
    if (actor[row]) {
      actorOf[worker[row]!] = actor[row]! - 1;
    }
  }
  for (const loss of graph.losses) {
    used[loss.worker] = 1;
  }
  const lanes = lanesOf(graph, used, actorOf);
  const laneOf = new Int32Array(limit).fill(NONE);
  const laneOfNode = new Map<number, number>();
  lanes.forEach((each, lane) => {
    if (each.worker === NONE) {
      laneOfNode.set(each.node, lane);
    } else {
      laneOf[each.worker] = lane;
    }
  });
  const bars: Bar[] = [];
  const cover = new Float32Array(lanes.length * width);
  const coverFn = new Uint32Array(lanes.length * width);
  const coverFailed = new Uint8Array(lanes.length * width);
  const t1 = t0 + width / pxPerS;
  for (let row = 0; row < n; row++) {
    const lane = laneOf[worker[row]!]!;
    const start = started[row]!;
    const home = state[row] === State.running ? now : finished[row]!;
    const left = sent[row]! < start ? sent[row]! : start; // NaN of what ran here
    if (lane < 0 || !(left < t1 && home > t0 && home >= start)) {
      continue;
    }
    const end = ended[row]! < home ? ended[row]! : home;
    const x0 = (start - t0) * pxPerS;
    const x1 = (end - t0) * pxPerS;
    if (x1 - x0 >= BAR_PX && bars.length < N_BARS_MAX) {
      const loadedAt = called[row]! <= end ? called[row]! : start;
      const xCall = (loadedAt - t0) * pxPerS;
      bars.push({ row, lane, x0, x1, xCall, from: (left - t0) * pxPerS, to: (home - t0) * pxPerS, kind: 'run', index: NONE, track: 0, nTracks: 1 });
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
  graph.losses.forEach(({ row, worker: at, sent: from, began, lost }, index) => {
    const lane = laneOf[at] ?? NONE;
    if (lane >= 0 && from < t1 && lost > t0) {
      const x0 = ((Number.isNaN(began) ? from : began) - t0) * pxPerS;
      const x1 = (lost - t0) * pxPerS;
      bars.push({ row, lane, x0, x1, from: (from - t0) * pxPerS, to: x1, kind: 'lost', xCall: x0, index, track: 0, nTracks: 1 });
    }
  });
  graph.transfers.forEach((transfer, index) => {
    const lane = laneOfNode.get(transfer.node) ?? NONE;
    const end = Math.min(transfer.ended, now);
    if (lane >= 0 && transfer.began < t1 && end > t0 && bars.length < 2 * N_BARS_MAX) {
      const x0 = (transfer.began - t0) * pxPerS;
      const x1 = Math.max(x0 + BAR_PX, (end - t0) * pxPerS);
      bars.push({ row: transfer.row, lane, x0, x1, from: x0, to: x1, kind: 'transfer', xCall: x0, index, track: 0, nTracks: 1 });
    }
  });
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
  const sent = graph.sent[row]!;
  const isAway = !Number.isNaN(sent);
  const begun = isAway ? sent : started;
  if (begun > ready) {
    lines.push(__('%1 in the queue', duration(begun - ready)));
  }
  if (isAway) {
    const where = graph.nodeName(graph.nodeOf(row));
    lines.push(started > sent ? __('%1 on the way to %2', duration(started - sent), where) : __('sent to %1', where));
  }
  const loading = graph.loading(row);
  if (loading > 0) {
    lines.push(__('%1 to load its code and arguments', duration(loading)));
  }
  const ran = graph.duration(row, now) - (loading > 0 ? loading : 0);
  if (!Number.isNaN(ran)) {
    lines.push(graph.state[row] === State.running ? __('runs for %1', duration(ran)) : __('ran %1', duration(ran)));
  }
  const ended = graph.ended[row]!;
  if (graph.finished[row]! > ended) {
    lines.push(__('%1 until its result was here', duration(graph.finished[row]! - ended)));
  }
  return lines;
}

/** A value's journey in words. */
export function journey(graph: TaskGraph, transfer: Transfer, now: number): string[] {
  const { row, node, comes, size: bytes, began, ended, complete } = transfer;
  const seconds = Math.min(ended, now) - began;
  const way = comes ? __('%1 from %2', size(bytes), graph.nodeName(node)) : __('%1 to %2', size(bytes), graph.nodeName(node));
  const rate = complete && seconds > 0 ? __('%1 per second', size(bytes / seconds)) : '';
  const state = ended > now ? __('under way for %1', duration(seconds)) : complete ? __('in %1', duration(seconds)) : __('given up after %1', duration(seconds));
  return [row >= 0 ? __('result of %1', graph.name(row)) : __('value'), way, [state, rate].filter(Boolean).join('  ·  ')];
}

/** Memory that is fuller than that holds tasks up, or has some of them ended. */
const TIGHT = 0.93;

/** Why a worker did nothing at a time: it was not there, or what was ready wanted more than was free, or nothing was ready. */
export function gapReason(graph: TaskGraph, at: number, worker = NO_WORKER): string[] {
  const life = graph.workers.get(worker);
  if (life?.node) {
    return []; // what went on there is not known here
  }
  if (life && (life.since > at || life.ended < at)) {
    return [life.since > at ? __('this process had not begun yet') : __('this process had ended')];
  }
  let [waiting, queued, running, loading] = [0, 0, 0, 0];
  const awaited = new Map<string, number>();
  for (let row = 0; row < graph.n; row++) {
    const started = graph.started[row]!;
    const finished = graph.finished[row]!;
    if (graph.kind[row] === Kind.object || !(graph.submitted[row]! <= at) || finished <= at) {
      continue;
    }
    if (started <= at) {
      running++;
      loading += Number(graph.called[row]! > at);
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
    return [_n('%2 task queued:', '%2 tasks queued:', queued), held(graph, at, running), ...loadingInWords(loading)];
  }
  if (waiting) {
    const [name] = [...awaited].sort(([, a], [, b]) => b - a)[0] ?? [__('what had yet to finish')];
    return [__('nothing was ready:'), _n('%2 task waited for %3', '%2 tasks waited for %3', waiting, name)];
  }
  return [...(running ? [_n('nothing else was to do while %2 task ran', 'nothing else was to do while %2 tasks ran', running)] : [__('nothing was to do')]), ...loadingInWords(loading)];
}

/** Of those that ran: how many had not begun with the user's code. */
function loadingInWords(n: number): string[] {
  return n ? [_n('%2 of them loaded its arguments', '%2 of them loaded their arguments', n)] : [];
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
