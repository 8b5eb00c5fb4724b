// The session at any moment of its past. Pure.
//
// Rows know when they were submitted, started and finished. From these times comes the message that a kernel would have
// sent at a moment; it is applied to a second graph. Rows keep their numbers. Nothing is invented: a retried task shows
// only its last attempt, and actors and workers exist from their first task on.

import {
  type ActorState,
  type Counts,
  type GraphArrays,
  type GraphHeader,
  type GraphMessage,
  Kind,
  NO_WORKER,
  State,
  VERSION
} from '../protocol/messages';
import { noCounts, type TaskGraph } from './graph';
import { isEnded } from './rows';

type Size = 'new' | 'updates' | 'edges' | 'remote' | 'calls';
type Updates = Omit<GraphArrays, 'newU32' | 'newSubmitted' | 'edges'>;

export class Moments {
  private version = -1;
  private epoch = -1;
  /** The time at which each row appears; rows appear in order. */
  private seen = new Float64Array(0);
  private ready = new Float64Array(0);
  /** The edges in the order of their later rows, and those later rows. */
  private edge = new Uint32Array(0);
  private edgeRow = new Uint32Array(0);

  constructor(private readonly graph: TaskGraph) {}

  /**
   * The message that leads from the moment `since` to the moment `at`, or with null a snapshot of `at`. To go back,
   * rewind the graph to the rows of that moment first.
   */
  message(at: number, since: number | null): GraphMessage {
    const { graph } = this;
    const n = this.rowsAt(at);
    const before = since === null ? 0 : Math.min(n, this.rowsAt(since));
    const counts = noCounts();
    const states = new Uint8Array(n);
    const changed = new Uint32Array(n);
    let nChanged = 0;
    const over = since === null ? Number.NEGATIVE_INFINITY : Math.min(at, since);
    for (let row = 0; row < n; row++) {
      if (graph.finished[row]! <= over && graph.kind[row] !== Kind.object && row < before) {
        counts[COUNTED[(states[row] = graph.state[row]!) as State]]++; // unchanged in between
        continue;
      }
      const state = (states[row] = this.stateAt(row, at));
      const isObject = graph.kind[row] === Kind.object;
      const was = since !== null && row < before ? this.stateAt(row, since) : isObject ? -1 : State.waiting;
      if (state !== was || (since !== null && graph.called[row]! > since !== graph.called[row]! > at)) {
        changed[nChanged++] = row;
      }
      if (!isObject) {
        counts[COUNTED[state]]++;
      }
    }
    const [first, end] = [before, n].map(row => countBelow(this.edgeRow, row)) as [number, number];
    const nEdges = end - first;
    const edges = new Uint32Array(2 * nEdges);
    for (let i = 0; i < nEdges; i++) {
      const e = this.edge[first + i]!;
      edges[2 * i] = graph.source[e]!;
      edges[2 * i + 1] = graph.target[e]!;
    }
    const updates = this.updates(changed.subarray(0, nChanged), states, at);
    return {
      header: {
        ...this.header(at, since, n, counts, states),
        new: n - before,
        updates: nChanged,
        edges: nEdges,
        remote: updates.remoteRow.length,
        calls: updates.calls.length / 2
      },
      arrays: {
        newU32: columns([graph.fn, graph.cell, graph.actor, graph.parent, graph.kind], before, n),
        newSubmitted: graph.submitted.slice(before, n),
        ...updates,
        edges
      }
    };
  }

  /** The columns of rows that have changed. */
  private updates(rows: Uint32Array, states: Uint8Array, at: number): Updates {
    const { graph } = this;
    const n = rows.length;
    const updateState = new Uint8Array(n);
    const updateWorker = new Uint16Array(n).fill(NO_WORKER);
    const [updateStarted, updateFinished, updateSize] = [0, 1, 2].map(() => new Float64Array(n).fill(Number.NaN)) as [
      Float64Array,
      Float64Array,
      Float64Array
    ];
    for (let i = 0; i < n; i++) {
      const row = rows[i]!;
      const state = (updateState[i] = states[row]!);
      if (hasBegun(state)) {
        updateWorker[i] = graph.worker[row]!;
        updateStarted[i] = graph.started[row]!;
      }
      if (isEnded(state)) {
        updateFinished[i] = graph.finished[row]!;
        updateSize[i] = graph.size[row]!;
      }
    }
    const remoteRow = rows.filter(row => hasBegun(states[row]!) && !Number.isNaN(graph.sent[row]!));
    const remoteTimes = new Float64Array(2 * remoteRow.length);
    remoteRow.forEach((row, i) => {
      remoteTimes[i] = graph.sent[row]!;
      remoteTimes[remoteRow.length + i] = isEnded(states[row]!) ? graph.ended[row]! : Number.NaN;
    });
    const called = Array.from(rows).filter(row => hasBegun(states[row]!) && graph.called[row]! <= at);
    const calls = Float64Array.from(called.flatMap(row => [row, graph.called[row]!]));
    return {
      updateRow: rows.slice(),
      updateState,
      updateWorker,
      updateStarted,
      updateFinished,
      updateSize,
      remoteRow,
      remoteTimes,
      calls
    };
  }

  /** A row's state at a moment, if it existed by then. */
  stateAt(row: number, at: number): State {
    const { graph } = this;
    const state = graph.state[row] as State;
    const started = graph.started[row]!;
    const finished = graph.finished[row]!;
    if (
      graph.kind[row] === Kind.object ||
      at >= graph.now ||
      finished <= at ||
      (isEnded(state) && Number.isNaN(finished))
    ) {
      return state;
    }
    if (started <= at) {
      return State.running;
    }
    return this.ready[row]! <= at ? State.queued : State.waiting;
  }

  /** A message's header but for the sizes of its arrays. */
  private header(
    at: number,
    since: number | null,
    n: number,
    counts: Counts,
    states: Uint8Array
  ): Omit<GraphHeader, Size> {
    const { graph } = this;
    const busy = new Uint8Array(graph.workerLimit);
    const used = new Uint8Array(graph.workerLimit);
    const actorStates = new Map<number, ActorState>();
    for (let row = 0; row < n; row++) {
      const state = states[row]!;
      if (hasBegun(state)) {
        used[graph.worker[row]!] = 1;
      }
      if (state === State.running) {
        busy[graph.worker[row]!] = 1;
      }
      const actor = graph.actor[row]! - 1;
      if (actor >= 0 && !actorStates.has(actor)) {
        actorStates.set(actor, graph.kind[row] === Kind.actor_creation && !isEnded(state) ? 'pending' : 'alive');
      }
    }
    const isNow = at >= graph.now;
    const sample = graph.resourcesAt(at);
    return {
      type: since === null ? 'snapshot' : 'delta',
      v: VERSION,
      n: since === null ? 0 : 1,
      session: graph.session,
      now: Math.min(at, graph.now),
      tasks: Object.values({ ...counts }).reduce((sum, each) => sum + each, 0),
      aggregated: 0,
      dropped: graph.dropped,
      behind: 0,
      functions: [...graph.functions],
      cells: [...graph.cells],
      actors: [...graph.actors]
        .filter(([actor]) => actorStates.has(actor))
        .map(([actor, label]) => [actor, isNow ? label : { ...label, state: actorStates.get(actor)!, crashed: false }]),
      workers: [...graph.workers]
        .filter(([worker, { since }]) => used[worker] || since <= at)
        .map(([worker, label]) => [
          worker,
          isNow
            ? label
            : {
                ...label,
                state: label.node ? label.state : label.ended <= at ? 'dead' : busy[worker] ? 'busy' : 'idle'
              }
        ]),
      counts,
      resources: {
        total: graph.resources.total,
        available: { ...graph.resources.total, CPU: (graph.resources.total['CPU'] ?? 0) - sample.cpus }
      },
      store: { ...graph.store, used: sample.store },
      nodes: [...graph.nodes].map(([node, label]) => [
        node,
        label.ended > at && label.state === 'dead' ? { ...label, state: 'alive', reason: '', ended: Infinity } : label
      ]),
      samples: graph.samples.filter(each => each.at <= at && (since === null || each.at > since)),
      transfers: [...graph.transfers.entries()]
        .filter(([, { began }]) => began <= at)
        .map(([number, each]) => [number, each.ended > at ? { ...each, ended: Infinity, complete: false } : each]),
      collectives: [...graph.collectives]
        .filter(([, { began }]) => began <= at)
        .map(([number, each]) => [number, each.ended > at ? { ...each, ended: Infinity } : each]),
      losses: graph.losses.filter(({ lost }) => lost <= at && (since === null || lost > since)),
      lines: 0,
      errors: [...graph.errors].filter(([row]) => row < n)
    };
  }

  /** The number of rows at a moment. */
  rowsAt(at: number): number {
    this.read();
    return countBelow(this.seen, at, true);
  }

  /** Catch up with the graph. */
  private read(): void {
    const { graph } = this;
    if (graph.version === this.version && graph.epoch === this.epoch) {
      return;
    }
    [this.version, this.epoch] = [graph.version, graph.epoch];
    const { n, submitted } = graph;
    this.seen = new Float64Array(n);
    this.ready = new Float64Array(n);
    let last = Number.NEGATIVE_INFINITY;
    for (let row = 0; row < n; row++) {
      const at = Number.isNaN(submitted[row]!) ? graph.started[row]! : submitted[row]!;
      last = at > last ? at : last;
      this.seen[row] = last;
      this.ready[row] = at;
    }
    for (let e = 0; e < graph.nEdges; e++) {
      const [source, target] = [graph.source[e]!, graph.target[e]!];
      const end = isEnded(graph.state[source]!) ? graph.finished[source]! : Number.POSITIVE_INFINITY;
      this.ready[target] = end > this.ready[target]! ? end : this.ready[target]!;
    }
    [this.edge, this.edgeRow] = edgesByLaterRow(graph);
  }
}

/** The edges in the order of the later of their rows, and that row of each. */
function edgesByLaterRow({
  n,
  nEdges,
  source,
  target
}: TaskGraph): [Uint32Array<ArrayBuffer>, Uint32Array<ArrayBuffer>] {
  const later = (e: number) => (source[e]! > target[e]! ? source[e]! : target[e]!);
  const begins = new Uint32Array(n + 1);
  for (let e = 0; e < nEdges; e++) {
    begins[later(e) + 1]!++;
  }
  for (let row = 0; row < n; row++) {
    begins[row + 1]! += begins[row]!;
  }
  const [edges, rows] = [new Uint32Array(nEdges), new Uint32Array(nEdges)];
  for (let e = 0; e < nEdges; e++) {
    const place = begins[later(e)]!++;
    edges[place] = e;
    rows[place] = later(e);
  }
  return [edges, rows];
}

/** How many of an ascending sequence are below a value, or with `included` not above it. */
function countBelow(ascending: Float64Array | Uint32Array, value: number, included = false): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! < value || (included && ascending[middle] === value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

function hasBegun(state: number): boolean {
  return state === State.running || isEnded(state);
}

function columns(all: (Uint32Array | Uint8Array)[], from: number, to: number): Uint32Array {
  const joined = new Uint32Array(all.length * (to - from));
  all.forEach((column, i) => joined.set(column.subarray(from, to), i * (to - from)));
  return joined;
}

const COUNTED: Record<State, keyof Counts> = {
  [State.waiting]: 'waiting',
  [State.queued]: 'queued',
  [State.running]: 'running',
  [State.finished]: 'finished',
  [State.failed]: 'failed',
  [State.cancelled]: 'cancelled',
  [State.retrying]: 'queued'
};
