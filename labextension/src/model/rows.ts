// Rows and the edges between them: columns of typed arrays, a row per task or put object, in order of appearance.
//
// Columns are longer than the number of rows and grow by doubling. Edges form linked lists of indices, so that adding
// one costs the same at any size.

import { NO_WORKER, State } from '../protocol/messages';

/** No row, no box. */
export const NONE = -1;
const FIRST_CAPACITY = 1024;

function grown<T extends Uint8Array | Uint16Array | Uint32Array | Int32Array | Float64Array>(
  column: T,
  capacity: number,
  fill: number
): T {
  const larger = new (column.constructor as new (n: number) => T)(capacity);
  larger.fill(fill);
  larger.set(column);
  return larger;
}

export class Rows {
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
  /** A client slot, or from FIRST_REMOTE_WORKER on a process of another machine. */
  worker = new Uint16Array(0);
  submitted = new Float64Array(0);
  started = new Float64Array(0);
  finished = new Float64Array(0);
  /**
   * For rows that ran on another machine: when they were sent, and when they ended there. `finished` is when the
   * result was here.
   */
  sent = new Float64Array(0);
  ended = new Float64Array(0);
  /** When the user's code began, if loading code or arguments took long; else NaN. */
  called = new Float64Array(0);
  size = new Float64Array(0);
  group = new Uint32Array(0);
  /** The row's place in its group. */
  rank = new Uint32Array(0);
  /** The previous call of the same actor, or NONE. Calls of an actor run in order: each follows the one before. */
  previousCall = new Int32Array(0);
  /**
   * When the row appeared and when its state last changed, in milliseconds of the caller's clock. Drawing fades with
   * it.
   */
  born = new Float64Array(0);
  changed = new Float64Array(0);

  // ---- edges, and for each row the list of those that end and begin there
  nEdges = 0;
  source = new Uint32Array(0);
  target = new Uint32Array(0);
  nextIn = new Int32Array(0);
  nextOut = new Int32Array(0);
  firstIn = new Int32Array(0);
  firstOut = new Int32Array(0);
  /** First and next nested task, so that a task's children are found. */
  firstChild = new Int32Array(0);
  nextChild = new Int32Array(0);

  private capacity = 0;
  private edgeCapacity = 0;

  /** Have no rows and no edges. */
  empty(): void {
    this.n = this.nEdges = this.capacity = this.edgeCapacity = 0;
    this.allocateRows(FIRST_CAPACITY);
    this.allocateEdges(FIRST_CAPACITY);
  }

  /** Forget the rows from `n` on; their edges must be gone already. */
  cut(n: number): void {
    for (const [column, none] of this.columnsBorn) {
      column.fill(none, n, this.n);
    }
    this.n = n;
  }

  /** Seconds from start to end, or to now while it runs; NaN when it has not started. */
  duration(row: number, now: number): number {
    const end = this.endOf(row);
    const start = this.started[row]!;
    return Number.isNaN(end) ? (this.state[row] === State.running ? now - start : Number.NaN) : end - start;
  }

  /** When a row stopped running; on another machine that is before its result was here. */
  endOf(row: number): number {
    const ended = this.ended[row]!;
    return Number.isNaN(ended) ? this.finished[row]! : ended;
  }

  /** Seconds that a worker took to load a row's code and arguments; NaN if that took no time. */
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

  /** The rows before and after a row along dependencies and nesting, at most `limit`, including the row itself. */
  relatives(row: number, limit: number): Set<number> {
    const found = new Set([row]);
    for (const step of ['up', 'down'] as const) {
      const queue = [row];
      while (queue.length && found.size < limit) {
        const at = queue.pop()!;
        const parent = this.parent[at]! - 1;
        const next =
          step === 'up'
            ? [...this.dependencies(at), ...(parent >= 0 ? [parent] : [])]
            : [...this.dependents(at), ...this.children(at)];
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

  /** Columns that a new row does not set, and what stands there then. */
  private get columnsBorn(): [Uint16Array | Int32Array | Float64Array, number][] {
    const {
      worker,
      started,
      finished,
      called,
      sent,
      ended,
      size,
      previousCall,
      firstIn,
      firstOut,
      firstChild,
      nextChild
    } = this;
    return [
      [worker, NO_WORKER],
      ...[started, finished, called, sent, ended, size].map((column): [Float64Array, number] => [column, Number.NaN]),
      ...[previousCall, firstIn, firstOut, firstChild, nextChild].map((column): [Int32Array, number] => [column, NONE])
    ];
  }

  allocateRows(capacity: number): void {
    if (capacity <= this.capacity) {
      return;
    }
    this.capacity = Math.max(capacity, 2 * this.capacity);
    const n = this.capacity;
    // After a reset the old content is overwritten row by row before it is read.
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

  allocateEdges(capacity: number): void {
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
}

export function numberOf(rows: Iterable<number>): number {
  let n = 0;
  for (const _ of rows) {
    n++;
  }
  return n;
}

/** Whether a state is final. */
export function isEnded(state: number): boolean {
  return state === State.finished || state === State.failed || state === State.cancelled;
}
