// The runs of learning of a recording: as the messages that a kernel would send.

import { type Buffer, isObject, type Json } from '../protocol/check';
import { ProtocolError } from '../protocol/errors';
import { VERSION } from '../protocol/messages';
import { decodeLearningLabel, decodeLearningPoints } from '../protocol/validators';
import type { Column } from './arrow';

/** The tables of runs, column after column. */
export type LearningTables = Record<'points' | 'metrics', Column[]>;

export interface Message {
  data: Json;
  buffers: Buffer[];
}

export class RecordedLearning {
  readonly labels: readonly unknown[];
  /** The points of each run. */
  readonly messages: readonly Message[];

  /** Throws `ProtocolError` when the runs, as `run.json` describes them, and the tables do not fit. */
  constructor(runs: readonly unknown[], tables: LearningTables) {
    const described = runs.map(each => {
      if (!isObject(each) || !isObject(each['points'])) {
        throw new ProtocolError('a run of learning of the recording is not described');
      }
      decodeLearningLabel(each['label'], 'run of learning'); // throws
      return { label: each['label'], points: each['points'] };
    });
    this.labels = described.map(({ label }) => label);
    this.messages = described.map(({ points }, number) => messageOf(points, number, tables));
  }
}

function messageOf(written: Json, number: number, tables: LearningTables): Message {
  const data = { ...written, type: 'learning_points', v: VERSION, n: number, first: 0 };
  const { metrics, points } = decodeLearningPoints(data);
  const values = new Float64Array((1 + metrics.length) * points).fill(Number.NaN);
  const [runs, at] = tables.points as [Column, Column];
  const own = Float64Array.from(rowsOf(runs, number), row => at[row] as number);
  if (own.length !== points) {
    throw new ProtocolError('a run of the recording has other points than it says');
  }
  values.set(own);
  const [of, point, metric, value] = tables.metrics as [Column, Column, Column, Column];
  for (const row of rowsOf(of, number)) {
    const [place, column] = [point[row] as number, metric[row] as number];
    if (place >= points || column >= metrics.length) {
      throw new ProtocolError('a table of the recording names a point or a metric of a run that there is not');
    }
    values[(1 + column) * points + place] = value[row] as number;
  }
  return { data: { ...data, values: values.length }, buffers: [values] };
}

/** The rows of a run, by the column that names it. */
function rowsOf(runs: Column, number: number): number[] {
  const rows: number[] = [];
  runs.forEach((each: number | string, row: number) => {
    if (each === number) {
      rows.push(row);
    }
  });
  return rows;
}
