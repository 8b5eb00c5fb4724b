// The trials of the experiment that is looked at, as columns by the trial's number. Pure.
//
// A message has each trial that has changed as a whole, so it is applied by replacing what was there.

import { ProtocolError } from '../protocol/errors';
import { type TrialArrays, type Trials as Header, TrialState } from '../protocol/messages';

/** A trial's results: seconds of the session, iterations and values. */
export interface Curve {
  at: Float32Array;
  x: Float32Array;
  y: Float32Array;
}

/** More trials than anybody's machine runs: a number beyond is no number of a trial. */
const N_MAX = 10_000_000;
const NOTHING = new Float32Array(0);
export const NO_CURVE: Curve = { at: NOTHING, x: NOTHING, y: NOTHING };

export class Trials {
  path = '';
  /** Of the curves. */
  metric = '';
  /** Trials have smaller numbers. */
  n = 0;
  /** Changes with each message. */
  version = 0;
  /** How many trials are on their way. */
  behind = 0;
  /** What the controller has to tell. */
  told: readonly string[] = [];
  state = new Uint8Array(0);
  iteration = new Float64Array(0);
  /** Seconds of the session; `created` is NaN of trials that are not known yet. */
  created = new Float64Array(0);
  started = new Float64Array(0);
  ended = new Float64Array(0);
  metrics = new Map<string, Float64Array>();
  /** Numbers, or indices of `words`. */
  parameters = new Map<string, Float64Array>();
  words = new Map<string, readonly string[]>();
  curves: Curve[] = [];
  why = new Map<number, string>();
  errors = new Map<number, string>();

  isKnown(trial: number): boolean {
    return trial >= 0 && trial < this.n && !Number.isNaN(this.created[trial]!);
  }

  /** The trials that are known, by number. */
  all(): number[] {
    const found: number[] = [];
    for (let trial = 0; trial < this.n; trial++) {
      if (!Number.isNaN(this.created[trial]!)) {
        found.push(trial);
      }
    }
    return found;
  }

  /** A column of metrics; of NaN if there is none. */
  metricOf(name: string): Float64Array {
    return this.metrics.get(name) ?? new Float64Array(this.n).fill(Number.NaN);
  }

  /** Take a message in. */
  apply(header: Header, arrays: TrialArrays): void {
    if (header.n === 0) {
      this.clear();
    }
    this.path = header.path;
    this.metric = header.metric;
    this.behind = header.behind;
    this.told = header.told;
    const { trial: numbers } = arrays;
    const n = header.changed;
    this.grow(numbers.reduce((most, number) => Math.max(most, number + 1), this.n));
    const put = (column: Float64Array, from: ArrayLike<number>, start: number) =>
      numbers.forEach((number, i) => (column[number] = from[start + i]!));
    numbers.forEach((number, i) => (this.state[number] = arrays.state[i]!));
    put(this.iteration, arrays.iteration, 0);
    [this.created, this.started, this.ended].forEach((column, k) => put(column, arrays.times, k * n));
    header.metrics.forEach((name, k) => put(this.columnIn(this.metrics, name), arrays.metrics, k * n));
    header.parameters.forEach(({ name, words }, k) => {
      put(this.columnIn(this.parameters, name), arrays.parameters, k * n);
      this.words.set(name, words);
    });
    let from = 0;
    numbers.forEach((number, i) => {
      const to = from + arrays.lengths[i]!;
      if (to > header.points) {
        throw new ProtocolError('the curves are longer than the message');
      }
      this.curves[number] = {
        at: arrays.at.subarray(from, to),
        x: arrays.x.subarray(from, to),
        y: arrays.y.subarray(from, to)
      };
      from = to;
      this.why.delete(number);
      this.errors.delete(number);
    });
    for (const { trial, why, error } of header.texts) {
      if (why) {
        this.why.set(trial, why);
      }
      if (error) {
        this.errors.set(trial, error);
      }
    }
    this.version++;
  }

  clear(): void {
    const { version } = this;
    Object.assign(this, new Trials(), { version: version + 1 });
  }

  /**
   * The trials as they were at a moment of the session, in seconds. Of trials that had not ended only the metric of the
   * curves is known.
   */
  at(moment: number): Trials {
    const then = new Trials();
    Object.assign(then, this);
    then.created = this.created.map(at => (at <= moment ? at : Number.NaN));
    then.state = this.state.slice();
    then.started = this.started.slice();
    then.ended = this.ended.slice();
    then.iteration = this.iteration.slice();
    then.metrics = new Map([...this.metrics].map(([name, column]) => [name, column.slice()]));
    then.curves = [];
    const own = then.columnIn(then.metrics, this.metric);
    for (let trial = 0; trial < this.n; trial++) {
      const curve = this.curves[trial] ?? NO_CURVE;
      then.curves[trial] = curve;
      if (this.ended[trial]! <= moment) {
        continue;
      }
      const hasBegun = this.started[trial]! <= moment;
      if (!hasBegun || !Number.isNaN(this.ended[trial]!)) {
        then.state[trial] = hasBegun ? TrialState.running : TrialState.pending;
      }
      then.ended[trial] = Number.NaN;
      then.started[trial] = hasBegun ? this.started[trial]! : Number.NaN;
      let n = curve.at.length;
      if (n && curve.at[n - 1]! <= moment && Number.isNaN(this.ended[trial]!)) {
        continue; // nothing was reported since
      }
      while (n && curve.at[n - 1]! > moment) {
        n--;
      }
      then.curves[trial] = { at: curve.at.subarray(0, n), x: curve.x.subarray(0, n), y: curve.y.subarray(0, n) };
      then.iteration[trial] = n ? curve.x[n - 1]! : 0;
      then.metrics.forEach(column => (column[trial] = Number.NaN));
      own[trial] = n ? curve.y[n - 1]! : Number.NaN;
    }
    return then;
  }

  private grow(n: number): void {
    if (n > N_MAX) {
      throw new ProtocolError(`there is no trial ${n - 1}`);
    }
    if (n <= this.n) {
      return;
    }
    const longer = (column: Float64Array): Float64Array<ArrayBuffer> => extended(column, n);
    const state = new Uint8Array(n);
    state.set(this.state);
    this.state = state;
    this.iteration = longer(this.iteration);
    this.created = longer(this.created);
    this.started = longer(this.started);
    this.ended = longer(this.ended);
    for (const columns of [this.metrics, this.parameters]) {
      columns.forEach((column, name) => columns.set(name, longer(column)));
    }
    while (this.curves.length < n) {
      this.curves.push(NO_CURVE);
    }
    this.n = n;
  }

  private columnIn(columns: Map<string, Float64Array>, name: string): Float64Array {
    let column = columns.get(name);
    if (!column) {
      column = new Float64Array(this.n).fill(Number.NaN);
      columns.set(name, column);
    }
    return column;
  }
}

function extended(column: Float64Array, n: number): Float64Array<ArrayBuffer> {
  const longer = new Float64Array(n).fill(Number.NaN);
  longer.set(column);
  return longer;
}
