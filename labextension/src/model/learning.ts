// The runs of learning: what is known of each, and their points as columns. Pure.

import { ProtocolError } from '../protocol/errors';
import type { LearningArrays, LearningLabel, LearningPoints } from '../protocol/messages';

/** A run's points. */
export interface Points {
  /** When each was added, in seconds of the session. */
  at: Float64Array;
  /** By the metric's name; NaN where there is no value. */
  columns: ReadonlyMap<string, Float64Array>;
}

const NOTHING: Points = { at: new Float64Array(0), columns: new Map() };

export class LearningRuns {
  /** In the order in which they began. */
  labels: readonly LearningLabel[] = [];
  /** Changes with each message. */
  version = 0;
  private readonly points = new Map<number, Points>();

  /** The points of a run; none before they have come. */
  of(run: number): Points {
    return this.points.get(run) ?? NOTHING;
  }

  label(run: number): LearningLabel | undefined {
    return this.labels.find(label => label.run === run);
  }

  /** Take in which runs there are; the points of others are forgotten. */
  list(labels: readonly LearningLabel[]): void {
    this.labels = labels;
    const there = new Set(labels.map(({ run }) => run));
    for (const run of this.points.keys()) {
      if (!there.has(run)) {
        this.points.delete(run);
      }
    }
    this.version++;
  }

  /** Take in points of a run. */
  apply({ n, run, metrics, first, points, values: size }: LearningPoints, { values }: LearningArrays): void {
    if (n === 0) {
      this.points.clear();
    }
    const before = this.of(run);
    if (first > before.at.length || size !== points * (metrics.length + 1)) {
      throw new ProtocolError('the points of a run of learning do not follow those before, or are not all there');
    }
    const longer = (known: Float64Array | undefined, k: number) => {
      const column = new Float64Array(first + points).fill(Number.NaN);
      column.set(known?.subarray(0, first) ?? []);
      column.set(values.subarray(k * points, (k + 1) * points), first);
      return column;
    };
    this.points.set(run, {
      at: longer(before.at, 0),
      columns: new Map(metrics.map((name, k) => [name, longer(before.columns.get(name), k + 1)]))
    });
    this.version++;
  }

  clear(): void {
    this.points.clear();
    this.list([]);
  }

  /** The runs as they were at a moment of the session, in seconds. */
  at(moment: number): LearningRuns {
    const then = new LearningRuns();
    then.version = this.version;
    then.labels = this.labels
      .filter(({ began }) => began <= moment)
      .map(label =>
        label.ended > moment && Number.isFinite(label.ended)
          ? { ...label, state: 'running', why: '', ended: Number.POSITIVE_INFINITY }
          : label
      );
    for (const { run } of then.labels) {
      const { at, columns } = this.of(run);
      const later = at.findIndex(each => each > moment);
      const n = later < 0 ? at.length : later;
      then.points.set(run, {
        at: at.subarray(0, n),
        columns: new Map([...columns].map(([name, column]) => [name, column.subarray(0, n)]))
      });
    }
    return then;
  }
}
