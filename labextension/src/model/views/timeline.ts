// When tasks ran, and where: a lane for each worker, a bar for each task. Pure.
//
// Nothing is kept between pictures: one pass over the columns decides for each row whether it is seen, as a bar of its
// own or, narrower than that, as a share of the pixels it covers. That is fast enough for a million rows, and cannot be
// out of date.

import { __, _n } from '../../i18n/translate';
import { type Collective, NO_WORKER, State } from '../../protocol/messages';
import { failedThrough } from '../failures';
import type { TaskGraph } from '../graph';
import { NONE } from '../rows';
import { collectivesOf, secondsIn, slowest, within } from './ranks';

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
  /** Of members of a group, which lie one below the other in the order of their ranks; '' and NONE for others. */
  group: string;
  rank: number;
}

export interface Bar {
  /** NONE: a value without a row. */
  row: number;
  lane: number;
  x0: number;
  x1: number;
  /** Where the user's code begins: at x0 unless loading code and arguments took long. */
  xCall: number;
  /** For rows that ran on another machine: when they were sent and when the result was here; else `x0` and `x1`. */
  from: number;
  to: number;
  kind: 'run' | 'lost' | 'transfer';
  /** The number of a loss or a transfer. */
  index: number;
  /** Bars of one lane that overlap (an actor's concurrent calls) share its height. */
  track: number;
  nTracks: number;
  /** When the rank was in collectives. */
  collectives: Shaded[];
  /** Of the slowest rank: seconds that the others waited for it; 0 of others. */
  awaited: number;
}

/** A stretch of a bar that was spent in collectives, or a share of it. */
export interface Shaded {
  x0: number;
  x1: number;
  share: number;
  collective: Collective;
}

export interface Arranged {
  lanes: Lane[];
  bars: Bar[];
  /** For each lane and pixel column: the share covered by bars too narrow to draw, and the function of one of them. */
  width: number;
  cover: Float32Array;
  coverFn: Uint32Array;
  /** Columns in which one of them failed, by itself. */
  coverFailed: Uint8Array;
}

/** Narrower bars are drawn together. */
const BAR_PX = 2;
const N_BARS_MAX = 4000;
/** A pixel is at least a tenth of a microsecond: clocks are no finer. */
export const PX_PER_S_MAX = 1e7;

/** Where a row begins and ends; null if it has not run or its duration is unknown. */
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

/** The lanes: every worker that has run something or can; with several machines, below the lane of their machine. */
function lanesOf(graph: TaskGraph, used: Uint8Array, actorOf: Int32Array): Lane[] {
  const workers = [...graph.workers]
    .filter(([worker, { state, pid, node }]) => used[worker] || (state !== 'dead' && (pid || !node)))
    .map(([worker, { pid, state, node }]): Lane => {
      const actor = graph.actors.get(actorOf[worker]!);
      const rank = actor?.group ? actor.rank : NONE;
      const title =
        rank !== NONE
          ? `${__('rank %1', rank)} · ${actor!.cls}`
          : actor
            ? actor.name || actor.cls
            : pid
              ? __('worker')
              : __('under way');
      const detail =
        state === 'dead'
          ? __('%1, ended', pid)
          : state === 'blocked'
            ? __('%1, waits', pid)
            : pid
              ? String(pid)
              : __('sent, not begun');
      return { worker, node, title, detail, group: actor?.group ?? '', rank };
    });
  const firstOf = new Map<string, number>();
  for (const { group, worker } of workers) {
    firstOf.set(group, Math.min(worker, firstOf.get(group) ?? worker));
  }
  // A group lies where its first worker would.
  const place = ({ group, worker }: Lane) => (group ? firstOf.get(group)! : worker);
  workers.sort((a, b) => a.node - b.node || place(a) - place(b) || a.rank - b.rank || a.worker - b.worker);
  if (!graph.isClustered) {
    return workers;
  }
  const nodes = new Set([0, ...[...graph.nodes.keys()].sort((a, b) => a - b), ...workers.map(({ node }) => node)]);
  return [...nodes].flatMap(node => [machineLane(graph, node), ...workers.filter(lane => lane.node === node)]);
}

function machineLane(graph: TaskGraph, node: number): Lane {
  const label = graph.nodes.get(node);
  const detail =
    label?.state === 'dead'
      ? __('lost')
      : label?.state === 'draining'
        ? __('draining')
        : !node
          ? __('this machine')
          : label
            ? _n('%2 CPU', '%2 CPUs', label.cpus)
            : '';
  return { worker: NONE, node, title: graph.nodeName(node), detail, group: '', rank: NONE };
}

export function arrange(graph: TaskGraph, { t0, pxPerS }: Scale, width: number, now: number): Arranged {
  const limit = graph.workerLimit;
  const used = new Uint8Array(limit);
  const actorOf = new Int32Array(limit).fill(-1);
  // Locals, because the loops visit every row.
  const { n, worker, actor, state, started, finished, sent, ended, called, fn } = graph;
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
      bars.push({
        row,
        lane,
        x0,
        x1,
        xCall,
        from: (left - t0) * pxPerS,
        to: (home - t0) * pxPerS,
        kind: 'run',
        index: NONE,
        track: 0,
        nTracks: 1,
        collectives: [],
        awaited: 0
      });
      continue;
    }
    const isFailed = Number(state[row] === State.failed && failedThrough(graph, row) === NONE);
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
      bars.push({
        row,
        lane,
        x0,
        x1,
        from: (from - t0) * pxPerS,
        to: x1,
        kind: 'lost',
        xCall: x0,
        index,
        track: 0,
        nTracks: 1,
        collectives: [],
        awaited: 0
      });
    }
  });
  graph.transfers.forEach((transfer, index) => {
    const lane = laneOfNode.get(transfer.node) ?? NONE;
    const end = Math.min(transfer.ended, now);
    if (lane >= 0 && transfer.began < t1 && end > t0 && bars.length < 2 * N_BARS_MAX) {
      const x0 = (transfer.began - t0) * pxPerS;
      const x1 = Math.max(x0 + BAR_PX, (end - t0) * pxPerS);
      bars.push({
        row: transfer.row,
        lane,
        x0,
        x1,
        from: x0,
        to: x1,
        kind: 'transfer',
        xCall: x0,
        index,
        track: 0,
        nTracks: 1,
        collectives: [],
        awaited: 0
      });
    }
  });
  shadeCollectives(graph, bars, { t0, pxPerS }, now);
  share(bars);
  return { lanes, bars, width, cover, coverFn, coverFailed };
}

/** Say of each bar when its rank was in collectives, and which rank was waited for. */
function shadeCollectives(graph: TaskGraph, bars: Bar[], { t0, pxPerS }: Scale, now: number): void {
  const all = collectivesOf(graph);
  if (!all.size) {
    return;
  }
  const awaited = slowest(graph, now);
  for (const bar of bars) {
    const list = bar.kind === 'run' ? all.get(graph.worker[bar.row]!) : undefined;
    if (!list) {
      continue;
    }
    bar.awaited = awaited.get(bar.row) ?? 0;
    const end = t0 + bar.x1 / pxPerS;
    bar.collectives = within(list, t0 + bar.x0 / pxPerS, end).map(collective => {
      const to = Math.min(collective.ended, end);
      const share = Math.min(1, secondsIn(collective, end) / Math.max(to - collective.began, 1e-9));
      return { x0: (collective.began - t0) * pxPerS, x1: (to - t0) * pxPerS, share, collective };
    });
  }
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
  const style = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return `${(at * factor).toLocaleString(undefined, style)}\u00a0${unit}`;
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
