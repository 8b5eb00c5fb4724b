// The experiments of a recording: as the messages that a kernel would send.

import { type Buffer, isObject, type Json } from '../protocol/check';
import { ProtocolError } from '../protocol/errors';
import { type Trials, TrialState, VERSION } from '../protocol/messages';
import { decodeExperimentLabel, decodeTrials } from '../protocol/validators';
import type { Column } from './arrow';

/** The tables of trials, column after column. */
export type TrialTables = Record<'trials' | 'settings' | 'results' | 'curves', Column[]>;
/** The columns of an experiment's rows of a table, without the one that names the experiment. */
type Rows = number[][];

interface Recorded {
  /** The label and the header as the kernel has written them. */
  label: unknown;
  written: Json;
  header: Trials;
  tables: Record<keyof TrialTables, Rows>;
}

export class RecordedTrials {
  readonly labels: readonly unknown[];
  private readonly byPath: ReadonlyMap<string, Recorded>;

  /** Throws `ProtocolError` when the experiments, as `run.json` describes them, and the tables do not fit. */
  constructor(experiments: readonly unknown[], tables: TrialTables) {
    const all = experiments.map((each, number) => recorded(each, number, tables));
    this.byPath = new Map(all.map(each => [each.header.path, each]));
    this.labels = all.map(({ label }) => label);
  }

  /** The trials of an experiment, with curves of this metric ('': the experiment's); null if there is none. */
  message(path: string, metric: string): { data: Json; buffers: Buffer[] } | null {
    const found = this.byPath.get(path);
    return found ? messageOf(found, metric || found.header.metric) : null;
  }
}

function recorded(each: unknown, number: number, tables: TrialTables): Recorded {
  if (!isObject(each) || !isObject(each['trials'])) {
    throw new ProtocolError('an experiment of the recording is not described');
  }
  const { label } = each;
  const written = { ...each['trials'], type: 'trials', v: VERSION, n: 0, behind: 0 };
  const header = decodeTrials(written);
  const { metrics, parameters } = header;
  decodeExperimentLabel(label, 'experiment'); // throws
  const own = {
    trials: rowsOf(tables.trials, number, Object.keys(TrialState).length),
    settings: rowsOf(tables.settings, number, parameters.length),
    results: rowsOf(tables.results, number, metrics.length),
    curves: rowsOf(tables.curves, number, metrics.length)
  };
  return { label, written, header, tables: own };
}

/** The rows of an experiment. In all tables the trial stands first, and then a number below `limit`. */
function rowsOf([experiment, ...columns]: Column[], number: number, limit: number): Rows {
  const rows: number[] = [];
  experiment!.forEach((each: number | string, row: number) => {
    if (each === number) {
      rows.push(row);
    }
  });
  const own = columns.map(column => rows.map(row => column[row] as number));
  if (own[1]!.some(each => each >= limit)) {
    throw new ProtocolError('a table of the recording names a state, a parameter or a metric that there is not');
  }
  return own;
}

function messageOf({ written, header, tables }: Recorded, metric: string): { data: Json; buffers: Buffer[] } {
  const [numbers, state, iteration, ...times] = tables.trials as [number[], number[], number[], ...number[][]];
  const n = numbers.length;
  const places = new Map(numbers.map((number, i) => [number, i]));
  const metrics = dense(tables.results, header.metrics.length, places);
  const parameters = dense(tables.settings, header.parameters.length, places);
  const curves = curvesOf(tables.curves, header.metrics.indexOf(metric), places);
  const data = {
    ...written,
    metric,
    changed: n,
    values: metrics.length,
    settings: parameters.length,
    points: curves.at.length
  };
  return {
    data,
    buffers: [
      Uint32Array.from(numbers),
      Uint8Array.from(state),
      Uint32Array.from(iteration),
      Float64Array.from(times.flat()),
      metrics,
      parameters,
      curves.lengths,
      curves.at,
      curves.x,
      curves.y
    ]
  };
}

/** Columns, one after the other, of the values that there are; NaN for the others. */
function dense([trial, column, value]: Rows, nColumns: number, places: ReadonlyMap<number, number>): Float64Array {
  const made = new Float64Array(nColumns * places.size).fill(Number.NaN);
  trial!.forEach((number, row) => {
    const place = places.get(number);
    if (place !== undefined) {
      made[column![row]! * places.size + place] = value![row]!;
    }
  });
  return made;
}

/** The curves of one metric, trial after trial. */
function curvesOf([trial, metric, ...points]: Rows, wanted: number, places: ReadonlyMap<number, number>) {
  const byTrial = Array.from(places, (): number[] => []);
  trial!.forEach((number, row) => {
    if (metric![row] === wanted) {
      byTrial[places.get(number) ?? -1]?.push(row);
    }
  });
  const rows = byTrial.flat();
  const [at, x, y] = points.map(column => Float32Array.from(rows, row => column[row]!)) as [
    Float32Array,
    Float32Array,
    Float32Array
  ];
  return { lengths: Uint32Array.from(byTrial, ({ length }) => length), at, x, y };
}
