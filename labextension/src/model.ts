// The task graph as the panel knows it: columns of typed arrays, a row per task or put object, in order of appearance.
//
// No DOM and no clock in here. A snapshot starts a new epoch, deltas extend it; layout and drawing read the columns and
// catch up on their own. Edges hang in linked lists of indices, so that adding one costs the same at any size.

import { type Group, Groups } from './groups';
import {
  type ActorLabel,
  type CellLabel,
  type Counts,
  type GraphMessage,
  Kind,
  type Loss,
  N_STATES,
  NO_WORKER,
  type NodeLabel,
  ProtocolError,
  type Resources,
  type Sample,
  State,
  type Store,
  type Transfer,
  type WorkerLabel
} from './protocol';
import { __ } from './text';

const NONE = -1;
const FIRST_CAPACITY = 1024;
/** Rate samples are kept this long; the header draws them as a line. */
export const HISTORY_S = 60;
/** Work that goes on after no more than this, as the rounds of a loop do, is one stretch. */
const PAUSE_S = 2;
/** As many samples are kept; of more every second one goes. The kernel keeps about as many. */
const N_SAMPLES_MAX = 2400;

export interface RateSample {
  /** Seconds since the session began. */
  now: number;
  /** Tasks that have ended. */
  ended: number;
}

export interface ActorCalls {
  /** Rows: the creation if it is known, and the latest call. */
  first: number;
  last: number;
  n: number;
  ended: number;
}

function grown<T extends Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array>(column: T, capacity: number, fill: number): T {
  const larger = new (column.constructor as new (n: number) => T)(capacity);
  larger.fill(fill);
  larger.set(column as never);
  return larger;
}

export function noCounts(): Counts {
  return { waiting: 0, ready: 0, running: 0, finished: 0, failed: 0, cancelled: 0 };
}

export class TaskGraph {
  /** Changes with each snapshot: whoever caught up with an older epoch begins again. */
  epoch = 0;
  /** Changes with each message. */
  version = 0;
  /** Whether there is more than one machine. */
  isClustered = false;
  /** Whether a group is of one machine. */
  byMachine = false;

  // ---- rows. Columns are longer than `n`; what lies beyond is undefined.
  n = 0;
  fn = new Uint32Array(0);
  cell = new Uint32Array(0);
  /** Actor index + 1, 0 for none. */
  actor = new Uint32Array(0);
  /** Row of the task that submitted it + 1, 0 for none. */
  parent = new Uint32Array(0);
  kind = new Uint8Array(0);
  state = new Uint8Array(0);
  /** A client slot, or from 256 on a process of another machine. */
  worker = new Uint16Array(0);
  submitted = new Float64Array(0);
  started = new Float64Array(0);
  finished = new Float64Array(0);
  /** Of what ran elsewhere: when it was sent, and when it ended there; its result was here when it `finished`. NaN of all else. */
  sent = new Float64Array(0);
  ended = new Float64Array(0);
  /** When the user's code began, of rows whose code or arguments took long to load; NaN of others. */
  called = new Float64Array(0);
  size = new Float64Array(0);
  group = new Uint32Array(0);
  /** The row's place in its group. */
  rank = new Uint32Array(0);
  /** The previous call of the same actor, or NONE. Calls of an actor run in order: each follows the one before. */
  previousCall = new Int32Array(0);
  /** When the row appeared and when its state last changed, on the caller's clock, milliseconds. Drawing fades with it. */
  born = new Float64Array(0);
  changed = new Float64Array(0);

  // ---- edges, and for each row the list of those that end and begin there
  nEdges = 0;
  source = new Uint32Array(0);
  target = new Uint32Array(0);
  private nextIn = new Int32Array(0);
  private nextOut = new Int32Array(0);
  private firstIn = new Int32Array(0);
  private firstOut = new Int32Array(0);
  /** First and next nested task, so that a task's children are found. */
  private firstChild = new Int32Array(0);
  private nextChild = new Int32Array(0);

  groups = new Groups();
  functions = new Map<number, string>();
  cells = new Map<number, CellLabel>();
  actors = new Map<number, ActorLabel>();
  workers = new Map<number, WorkerLabel>();
  nodes = new Map<number, NodeLabel>();
  /** What the machines were doing, by time. */
  samples: Sample[] = [];
  /** Values that travelled between this machine and others, in the order of their departure. */
  transfers: Transfer[] = [];
  /** Attempts that were lost with their machines. */
  losses: Loss[] = [];
  /** How many lines tasks have printed. */
  lines = 0;
  /** What each actor was asked to do, by actor index. */
  readonly calls = new Map<number, ActorCalls>();

  // ---- the latest header
  session = '';
  /** Time stands still: it is a recording, or a moment of the past. */
  isStill = false;
  now = 0;
  /** The caller's clock when `now` was true, milliseconds. */
  receivedAt = 0;
  tasks = 0;
  aggregated = 0;
  dropped = 0;
  behind = 0;
  counts: Counts = noCounts();
  resources: Resources = { total: {}, available: {} };
  store: Store = { used: 0, capacity: 0, objects: 0 };
  readonly history: RateSample[] = [];
  /** When the present stretch of work began; the last one ended at `busyUntil` (Infinity while it goes on). */
  busySince = 0;
  busyUntil = 0;

  private capacity = 0;
  private edgeCapacity = 0;

  /** Follow a message. Throws `ProtocolError`, and leaves the graph as it was, when it names rows that do not exist. */
  apply(message: GraphMessage, clockMs: number): void {
    const { header } = message;
    const before = header.type === 'snapshot' ? 0 : this.n;
    this.check(message, before + header.new);
    if (header.type === 'snapshot') {
      this.reset();
    }
    for (const [index, name] of header.functions) {
      this.functions.set(index, name);
    }
    for (const [index, label] of header.cells) {
      this.cells.set(index, label);
    }
    for (const [index, label] of header.actors) {
      this.actors.set(index, label);
    }
    for (const [index, label] of header.workers) {
      this.workers.set(index, label);
    }
    for (const [index, label] of header.nodes) {
      this.nodes.set(index, label);
    }
    this.isClustered ||= header.nodes.some(([node]) => node > 0) || header.workers.some(([, { node }]) => node > 0);
    this.samples.push(...header.samples);
    if (this.samples.length > N_SAMPLES_MAX) {
      this.samples = this.samples.filter((_, i) => i % 2 === 0 || i === this.samples.length - 1);
    }
    for (const [index, transfer] of header.transfers) {
      this.transfers[index] = transfer;
    }
    this.losses.push(...header.losses);
    this.lines = header.lines;
    this.session = header.session;
    this.now = header.now;
    this.receivedAt = clockMs;
    this.tasks = header.tasks;
    this.aggregated = header.aggregated;
    this.dropped = header.dropped;
    this.behind = header.behind;
    this.counts = header.counts;
    this.resources = header.resources;
    this.store = header.store;
    this.addRows(message, clockMs);
    this.addEdges(message);
    this.updateRows(message, clockMs);
    this.setCalls(message);
    this.remember();
    this.version++;
  }

  /** The session's clock at this moment of the caller's clock. */
  time(clockMs: number): number {
    if (this.isStill) {
      return this.now;
    }
    return this.n || this.session ? this.now + Math.max(0, clockMs - this.receivedAt) / 1000 : 0;
  }

  /** How long the present or last stretch of work has taken. */
  elapsed(clockMs: number): number {
    return Math.min(this.time(clockMs), this.busyUntil) - this.busySince;
  }

  /** Tasks that ended per second, over the last `windowS` seconds. */
  rate(windowS = 2): number {
    const { history } = this;
    const last = history[history.length - 1];
    if (!last) {
      return 0;
    }
    let first = last;
    for (let i = history.length - 1; i >= 0 && last.now - history[i]!.now <= windowS; i--) {
      first = history[i]!;
    }
    const seconds = last.now - first.now;
    return seconds > 0 ? (last.ended - first.ended) / seconds : 0;
  }

  /** What a machine was doing at a time; of this one the present where nothing was noted. */
  resourcesAt(at: number): Sample;
  resourcesAt(at: number, node: number): Sample | undefined;
  resourcesAt(at: number, node = 0): Sample | undefined {
    let [low, high] = [0, this.samples.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.samples[middle]!.at <= at) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const isHere = (sample?: Sample) => sample?.node === node;
    while (low > 1 && !isHere(this.samples[low - 1])) {
      low--;
    }
    const found = isHere(this.samples[low - 1]) ? this.samples[low - 1] : this.samples.find(isHere);
    if (found || node) {
      return found;
    }
    const { total, available } = this.resources;
    return { node: 0, at, load: 0, cpus: (total['CPU'] ?? 0) - (available['CPU'] ?? 0), gpus: 0, memory: 0, store: this.store.used, disk: 0, queued: 0 };
  }

  name(row: number): string {
    return this.nameOf(this.kind[row]!, this.fn[row]!);
  }

  /** What a task or an object is called. */
  nameOf(kind: number, fn: number): string {
    return kind === Kind.object ? objectName(this.functions.get(fn)) : this.functionName(fn);
  }

  /** A function's name; the kernel writes a question mark where the event that named it was lost. */
  functionName(fn: number): string {
    const name = this.functions.get(fn) ?? '?';
    return name === '?' ? __('unknown') : name;
  }

  cellLabel(row: number): CellLabel | undefined {
    return this.cells.get(this.cell[row]!);
  }

  /** Seconds from start to end, or to now while it runs; NaN when it has not started. */
  duration(row: number, now: number): number {
    const end = this.endOf(row);
    const start = this.started[row]!;
    return Number.isNaN(end) ? (this.state[row] === State.running ? now - start : Number.NaN) : end - start;
  }

  /** When a row had run: elsewhere, that is before its result was here. */
  endOf(row: number): number {
    const ended = this.ended[row]!;
    return Number.isNaN(ended) ? this.finished[row]! : ended;
  }

  /** The machine that a row ran on or was sent to; 0, the kernel's, if none. */
  nodeOf(row: number): number {
    const worker = this.worker[row]!;
    return worker <= NO_WORKER ? 0 : this.workers.get(worker)?.node ?? 0;
  }

  nodeName(node: number): string {
    return this.nodes.get(node)?.name ?? (node ? __('machine %1', node) : __('this machine'));
  }

  /** Workers have numbers below this. */
  get workerLimit(): number {
    return Math.max(NO_WORKER, ...this.workers.keys()) + 1;
  }

  /** Seconds that a worker took to load a row's code and arguments, or has by now; NaN where that was no time. */
  loading(row: number): number {
    return this.called[row]! - this.started[row]!;
  }

  /** Whether a row ran at any time of a stretch. */
  ranIn(row: number, [from, to]: readonly [number, number]): boolean {
    const end = this.finished[row]!;
    return this.started[row]! <= to && (Number.isNaN(end) || end >= from);
  }

  /** Groups, actors or workers (what `of` gives for a row) of which a row ran at any time of a stretch. */
  seenIn(stretch: readonly [number, number], of: (row: number) => number): Set<number> {
    const seen = new Set<number>();
    for (let row = 0; row < this.n; row++) {
      if (this.ranIn(row, stretch)) {
        seen.add(of(row));
      }
    }
    return seen;
  }

  /** Rows that this row depends on. */
  *dependencies(row: number): Generator<number> {
    for (let e = this.firstIn[row]!; e !== NONE; e = this.nextIn[e]!) {
      yield this.source[e]!;
    }
  }

  /** Rows that depend on this row. */
  *dependents(row: number): Generator<number> {
    for (let e = this.firstOut[row]!; e !== NONE; e = this.nextOut[e]!) {
      yield this.target[e]!;
    }
  }

  /** Tasks that this task submitted. */
  *children(row: number): Generator<number> {
    for (let c = this.firstChild[row]!; c !== NONE; c = this.nextChild[c]!) {
      yield c;
    }
  }

  /** Everything before and after a row along dependencies and nesting, at most `limit` rows, the row itself included. */
  relatives(row: number, limit: number): Set<number> {
    const found = new Set([row]);
    for (const step of ['up', 'down'] as const) {
      const queue = [row];
      while (queue.length && found.size < limit) {
        const at = queue.pop()!;
        const parent = this.parent[at]! - 1;
        const next = step === 'up' ? [...this.dependencies(at), ...(parent >= 0 ? [parent] : [])] : [...this.dependents(at), ...this.children(at)];
        for (const other of next) {
          if (!found.has(other)) {
            found.add(other);
            queue.push(other);
          }
        }
      }
    }
    return found;
  }

  private check({ header, arrays }: GraphMessage, nRows: number): void {
    const { newU32, updateRow, updateState, edges, awayRow, calls } = arrays;
    const known = (rows: Uint32Array) => rows.every(row => row < nRows);
    const nNew = header.new;
    if (!known(updateRow) || !known(edges) || !known(awayRow) || calls.some((row, i) => i % 2 === 0 && !(row >= 0 && row < nRows))) {
      throw new ProtocolError('an update or an edge of an unknown row');
    }
    if (updateState.some(state => state >= N_STATES) || newU32.subarray(4 * nNew).some(kind => kind > Kind.object)) {
      throw new ProtocolError('an unknown state or kind');
    }
    if (newU32.subarray(3 * nNew, 4 * nNew).some(parent => parent > nRows)) {
      throw new ProtocolError('a nested task of an unknown row');
    }
  }

  /** Have groups of one machine each, or not. What had not begun yet counts to this machine. */
  regroup(byMachine: boolean): void {
    if (byMachine === this.byMachine) {
      return;
    }
    this.byMachine = byMachine;
    this.epoch++;
    this.groups = new Groups();
    for (let row = 0; row < this.n; row++) {
      this.enterGroup(row);
      this.countInGroup(row, 1);
    }
    for (let row = 0; row < this.n; row++) {
      if (this.parent[row]) {
        this.connectGroups(this.parent[row]! - 1, row);
      }
    }
    for (let e = 0; e < this.nEdges; e++) {
      this.connectGroups(this.source[e]!, this.target[e]!);
    }
  }

  private groupOf(row: number): Group {
    return this.groups.find(this.fn[row]!, this.cell[row]!, this.kind[row] as Kind, this.byMachine ? this.nodeOf(row) : NONE, row);
  }

  private enterGroup(row: number): void {
    const group = this.groupOf(row);
    const state = this.state[row] as State;
    this.group[row] = group.index;
    this.rank[row] = group.waffle.add(state);
    group.n++;
    group.counts[state]!++;
  }

  /** Add what a row has taken, in time and bytes, to its group's sums, or take it away. */
  private countInGroup(row: number, sign: 1 | -1): void {
    const group = this.groups.list[this.group[row]!]!;
    const seconds = this.endOf(row) - this.started[row]!;
    group.bytes += sign * (this.size[row]! || 0);
    if (!Number.isNaN(seconds)) {
      group.seconds += sign * seconds;
      group.nTimed += sign;
    }
  }

  /** Rows that have been found on another machine go into its groups. */
  private moveRows(rows: readonly number[]): void {
    const stale = new Set<Group>();
    for (const row of rows) {
      const from = this.groups.list[this.group[row]!]!;
      const to = this.groupOf(row);
      const state = this.state[row] as State;
      const pairs = [
        ...[...this.dependencies(row), ...(this.parent[row] ? [this.parent[row]! - 1] : [])].map(other => [other, row] as const),
        ...[...this.dependents(row), ...this.children(row)].map(other => [row, other] as const)
      ];
      pairs.forEach(([source, target]) => this.groups.disconnect(this.group[source]!, this.group[target]!));
      this.countInGroup(row, -1);
      from.n--;
      from.counts[state]!--;
      this.group[row] = to.index;
      this.countInGroup(row, 1);
      to.n++;
      to.counts[state]!++;
      pairs.forEach(([source, target]) => this.connectGroups(source, target));
      stale.add(from).add(to);
    }
    this.groups.pruneEdges();
    this.groups.refine(this.n, this.group, this.state, this.rank, stale);
  }

  /** Forget everything: the session is no more. */
  clear(): void {
    this.reset();
    this.session = '';
    this.tasks = this.aggregated = this.dropped = this.behind = 0;
    this.version++;
  }

  /**
   * Forget the rows from `n` on and what hangs on them, to go back to a time. The other rows, and all labels, are as the message says
   * that is to follow. Edges must have come in the order of their later rows.
   */
  rewind(n: number, at: number): void {
    while (this.nEdges && Math.max(this.source[this.nEdges - 1]!, this.target[this.nEdges - 1]!) >= n) {
      const e = --this.nEdges;
      const [source, target] = [this.source[e]!, this.target[e]!];
      this.firstIn[target] = this.nextIn[e]!;
      this.firstOut[source] = this.nextOut[e]!;
      this.groups.disconnect(this.group[source]!, this.group[target]!);
    }
    for (let row = this.n - 1; row >= n; row--) {
      this.removeLast(row);
    }
    for (const [column, none] of this.columnsBorn) {
      column.fill(none, n, this.n);
    }
    this.n = n;
    if (this.byMachine) {
      this.groups.pruneEdges(); // rows come into groups in another order than they appear: each keeps its place
    } else {
      this.groups.prune();
    }
    this.groups.refine(n, this.group, this.state, this.rank);
    for (const labels of [this.functions, this.cells, this.actors, this.workers, this.nodes]) {
      labels.clear();
    }
    this.samples = this.samples.filter(sample => sample.at <= at);
    this.losses = this.losses.filter(({ lost }) => lost <= at);
    this.transfers = [];
    this.history.length = 0;
  }

  private removeLast(row: number): void {
    const group = this.groups.list[this.group[row]!]!;
    const state = this.state[row] as State;
    group.n--;
    group.counts[state]!--;
    group.waffle.removeLast(state);
    this.countInGroup(row, -1);
    const parent = this.parent[row]! - 1;
    if (parent >= 0) {
      this.firstChild[parent] = this.nextChild[row]!;
      this.groups.disconnect(this.group[parent]!, this.group[row]!);
    }
    const actor = this.actor[row]! - 1;
    const calls = this.calls.get(actor);
    if (calls?.last === row) {
      if (this.previousCall[row] === NONE) {
        this.calls.delete(actor);
      } else {
        calls.last = this.previousCall[row]!;
        calls.n--;
        calls.ended -= Number(this.kind[row] === Kind.actor_call && isEnded(state));
      }
    }
  }

  /** Columns that a new row does not set, and what stands there then. */
  private get columnsBorn(): [Uint16Array | Int32Array | Float64Array, number][] {
    const { worker, started, finished, called, sent, ended, size, previousCall, firstIn, firstOut, firstChild, nextChild } = this;
    return [
      [worker, NO_WORKER],
      ...[started, finished, called, sent, ended, size].map((column): [Float64Array, number] => [column, Number.NaN]),
      ...[previousCall, firstIn, firstOut, firstChild, nextChild].map((column): [Int32Array, number] => [column, NONE])
    ];
  }

  private reset(): void {
    this.epoch++;
    this.n = this.nEdges = this.capacity = this.edgeCapacity = 0;
    this.isClustered = false;
    this.allocateRows(FIRST_CAPACITY);
    this.allocateEdges(FIRST_CAPACITY);
    this.groups = new Groups();
    this.functions = new Map();
    this.cells = new Map();
    this.actors = new Map();
    this.workers = new Map();
    this.nodes = new Map();
    this.samples = [];
    this.transfers = [];
    this.losses = [];
    this.calls.clear();
    this.history.length = 0;
    this.busySince = this.busyUntil = 0;
  }

  private allocateRows(capacity: number): void {
    if (capacity <= this.capacity) {
      return;
    }
    this.capacity = Math.max(capacity, 2 * this.capacity);
    const n = this.capacity;
    // After a reset the old content is overwritten row by row before anybody reads it.
    this.fn = grown(this.fn.subarray(0, this.n), n, 0);
    this.cell = grown(this.cell.subarray(0, this.n), n, 0);
    this.actor = grown(this.actor.subarray(0, this.n), n, 0);
    this.parent = grown(this.parent.subarray(0, this.n), n, 0);
    this.kind = grown(this.kind.subarray(0, this.n), n, 0);
    this.state = grown(this.state.subarray(0, this.n), n, 0);
    this.worker = grown(this.worker.subarray(0, this.n), n, NO_WORKER);
    this.submitted = grown(this.submitted.subarray(0, this.n), n, Number.NaN);
    this.started = grown(this.started.subarray(0, this.n), n, Number.NaN);
    this.finished = grown(this.finished.subarray(0, this.n), n, Number.NaN);
    this.sent = grown(this.sent.subarray(0, this.n), n, Number.NaN);
    this.ended = grown(this.ended.subarray(0, this.n), n, Number.NaN);
    this.called = grown(this.called.subarray(0, this.n), n, Number.NaN);
    this.size = grown(this.size.subarray(0, this.n), n, Number.NaN);
    this.group = grown(this.group.subarray(0, this.n), n, 0);
    this.rank = grown(this.rank.subarray(0, this.n), n, 0);
    this.previousCall = grown(this.previousCall.subarray(0, this.n), n, NONE);
    this.born = grown(this.born.subarray(0, this.n), n, 0);
    this.changed = grown(this.changed.subarray(0, this.n), n, 0);
    this.firstIn = grown(this.firstIn.subarray(0, this.n), n, NONE);
    this.firstOut = grown(this.firstOut.subarray(0, this.n), n, NONE);
    this.firstChild = grown(this.firstChild.subarray(0, this.n), n, NONE);
    this.nextChild = grown(this.nextChild.subarray(0, this.n), n, NONE);
  }

  private allocateEdges(capacity: number): void {
    if (capacity <= this.edgeCapacity) {
      return;
    }
    this.edgeCapacity = Math.max(capacity, 2 * this.edgeCapacity);
    const n = this.edgeCapacity;
    this.source = grown(this.source.subarray(0, this.nEdges), n, 0);
    this.target = grown(this.target.subarray(0, this.nEdges), n, 0);
    this.nextIn = grown(this.nextIn.subarray(0, this.nEdges), n, NONE);
    this.nextOut = grown(this.nextOut.subarray(0, this.nEdges), n, NONE);
  }

  private addRows({ header, arrays }: GraphMessage, clockMs: number): void {
    const nNew = header.new;
    const base = this.n;
    this.allocateRows(base + nNew);
    const { newU32, newSubmitted } = arrays;
    this.fn.set(newU32.subarray(0, nNew), base);
    this.cell.set(newU32.subarray(nNew, 2 * nNew), base);
    this.actor.set(newU32.subarray(2 * nNew, 3 * nNew), base);
    this.parent.set(newU32.subarray(3 * nNew, 4 * nNew), base);
    this.kind.set(newU32.subarray(4 * nNew, 5 * nNew), base);
    this.submitted.set(newSubmitted, base);
    this.born.fill(clockMs, base, base + nNew);
    this.changed.fill(clockMs, base, base + nNew);
    this.n = base + nNew;
    for (let row = base; row < this.n; row++) {
      const kind = this.kind[row] as Kind;
      this.state[row] = kind === Kind.object ? State.finished : State.waiting;
      this.enterGroup(row);
      const parent = this.parent[row]! - 1;
      if (parent >= 0) {
        this.nextChild[row] = this.firstChild[parent]!;
        this.firstChild[parent] = row;
        this.connectGroups(parent, row);
      }
      this.followActor(row, kind);
    }
  }

  private followActor(row: number, kind: Kind): void {
    const actor = this.actor[row]! - 1;
    if (actor < 0 || kind === Kind.object) {
      return;
    }
    const calls = this.calls.get(actor);
    if (calls) {
      this.previousCall[row] = calls.last;
      calls.last = row;
      calls.n++;
    } else {
      this.calls.set(actor, { first: row, last: row, n: kind === Kind.actor_call ? 1 : 0, ended: 0 });
    }
  }

  private addEdges({ header, arrays }: GraphMessage): void {
    this.allocateEdges(this.nEdges + header.edges);
    const { edges } = arrays;
    for (let i = 0; i < edges.length; i += 2) {
      const source = edges[i]!;
      const target = edges[i + 1]!;
      const e = this.nEdges++;
      this.source[e] = source;
      this.target[e] = target;
      this.nextIn[e] = this.firstIn[target]!;
      this.firstIn[target] = e;
      this.nextOut[e] = this.firstOut[source]!;
      this.firstOut[source] = e;
      this.connectGroups(source, target);
    }
  }

  private connectGroups(source: number, target: number): void {
    this.groups.connect(this.group[source]!, this.group[target]!);
  }

  private updateRows({ arrays }: GraphMessage, clockMs: number): void {
    const { updateRow, updateState, updateWorker, updateStarted, updateFinished, updateSize, awayRow, awayTimes } = arrays;
    let away = 0; // those that ran elsewhere are in the order of the others
    const moved: number[] = [];
    for (let i = 0; i < updateRow.length; i++) {
      const row = updateRow[i]!;
      const from = this.state[row] as State;
      const to = updateState[i] as State;
      const group = this.groups.list[this.group[row]!]!;
      const nodeBefore = this.byMachine ? this.nodeOf(row) : 0;
      this.countInGroup(row, -1);
      this.worker[row] = updateWorker[i]!;
      this.started[row] = updateStarted[i]!;
      this.finished[row] = updateFinished[i]!;
      this.called[row] = Number.NaN;
      const isAway = awayRow[away] === row;
      this.sent[row] = isAway ? awayTimes[away]! : Number.NaN;
      this.ended[row] = isAway ? awayTimes[awayRow.length + away]! : Number.NaN;
      away += Number(isAway);
      this.size[row] = updateSize[i]!;
      this.countInGroup(row, 1);
      if (this.byMachine && this.nodeOf(row) !== nodeBefore) {
        moved.push(row);
      }
      if (from !== to) {
        this.state[row] = to;
        this.changed[row] = clockMs;
        group.counts[from]!--;
        group.counts[to]!++;
        group.waffle.change(this.rank[row]!, from, to);
        if (this.kind[row] === Kind.actor_call) {
          const calls = this.calls.get(this.actor[row]! - 1);
          if (calls) {
            calls.ended += Number(isEnded(to)) - Number(isEnded(from));
          }
        }
      }
    }
    if (moved.length) {
      this.moveRows(moved);
    }
  }

  private setCalls({ arrays: { calls } }: GraphMessage): void {
    for (let i = 0; i < calls.length; i += 2) {
      this.called[calls[i]!] = calls[i + 1]!;
    }
  }

  /** When the last stretch of work began and ended, as the rows tell it; it ends at Infinity while a row is open. */
  private lastStretch(): [number, number] {
    let [since, until] = [this.now, -Infinity];
    for (let row = 0; row < this.n; row++) {
      const submitted = this.submitted[row]!;
      if (this.kind[row] === Kind.object || Number.isNaN(submitted)) {
        continue;
      }
      if (submitted > until + PAUSE_S) {
        since = submitted;
      }
      const finished = isEnded(this.state[row]!) ? this.finished[row]! : Infinity;
      until = Math.max(until, Number.isNaN(finished) ? submitted : finished);
    }
    return [since, Math.max(until, since)];
  }

  private remember(): void {
    const { waiting, ready, running, finished, failed, cancelled } = this.counts;
    const sample = { now: this.now, ended: finished + failed + cancelled };
    const isBusy = waiting + ready + running > 0;
    if (!this.history.length) {
      // Joined later: the rows know when the work was.
      [this.busySince, this.busyUntil] = this.lastStretch();
    } else if (isBusy && this.now > this.busyUntil + PAUSE_S) {
      this.busySince = this.now;
    }
    if (isBusy) {
      this.busyUntil = Infinity;
    } else if (this.busyUntil === Infinity) {
      this.busyUntil = this.now;
    }
    const last = this.history[this.history.length - 1];
    // A tenth of a second apart is as fine as anything that shows them.
    if (last && this.history.length > 1 && sample.now - this.history[this.history.length - 2]!.now < 0.1) {
      Object.assign(last, sample);
    } else {
      this.history.push(sample);
    }
    while (this.history.length && sample.now - this.history[0]!.now > HISTORY_S) {
      this.history.shift();
    }
  }
}

/** Nothing will happen to a row in this state any more. */
export function isEnded(state: number): boolean {
  return state === State.finished || state === State.failed || state === State.cancelled;
}

/** Objects are called by how they came to be, in the kernel's words. */
function objectName(made: string | undefined): string {
  return made === 'argument' ? __('argument') : made === 'item' ? __('item') : __('put');
}
