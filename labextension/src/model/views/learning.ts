// Runs of learning as curves, as a table and in words. Pure.

import { duration, integer } from '../../i18n/format';
import { runStateName } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import { type LearningLabel, type RunState, State } from '../../protocol/messages';
import type { LearningRuns, Points } from '../learning';
import { NONE } from '../rows';
import { numberText } from './axis';
import type { Column, Table } from './table';

export const RETURN = 'episode_return_mean';
const [LOWEST, HIGHEST] = ['episode_return_min', 'episode_return_max'];
const EVALUATION = 'evaluation_return_mean';
const LENGTH = 'episode_length_mean';
const RATE = 'steps_per_s';
const [STEPS, ITERATION, TIME] = ['timesteps_total', 'training_iteration', 'time_total_s'];

/** What curves are drawn over. */
export type Over = 'steps' | 'time' | 'iterations';

/** A run's curve: the points that have both values. */
export interface Series {
  run: number;
  x: Float64Array;
  y: Float64Array;
  /** Of the return: the lowest and the highest of the episodes that it is the mean of; empty for other metrics. */
  low: Float64Array;
  high: Float64Array;
}

export function isLoss(metric: string): boolean {
  return metric.includes('loss');
}

/** Counts only grow: they are what metrics are drawn over. */
function isCount(name: string): boolean {
  return name === ITERATION || name === TIME || name.endsWith('_total');
}

/** The metrics of some runs in the order of their interest: return, length, losses, others such as entropy, speed. */
export function metricsOf(runs: LearningRuns): string[] {
  const names = new Set(runs.labels.flatMap(({ run }) => [...runs.of(run).columns.keys()]));
  const rank = (name: string) => {
    const known = [RETURN, EVALUATION, LENGTH].indexOf(name);
    const last = [RATE, LOWEST, HIGHEST].indexOf(name);
    return known >= 0 ? known : isLoss(name) ? 3 : last >= 0 ? 5 + last : 4;
  };
  return [...names].filter(name => !isCount(name)).sort((a, b) => rank(a) - rank(b));
}

/** What is plotted unless the reader asks otherwise: the return, else what has a goal, else the first metric. */
export function metricFirst(runs: LearningRuns, metrics: readonly string[]): string {
  const goals = runs.labels.map(({ goal }) => goal);
  const hasValue = (name: string) =>
    runs.labels.some(({ run }) =>
      runs
        .of(run)
        .columns.get(name)
        ?.some(value => Number.isFinite(value))
    );
  return [RETURN, ...goals.filter(goal => metrics.includes(goal)), ...metrics].find(hasValue) ?? metrics[0] ?? '';
}

/** What curves are drawn over unless the reader asks otherwise. */
export function overFirst(runs: LearningRuns): Over {
  return runs.labels.some(({ run }) => runs.of(run).columns.has(STEPS)) ? 'steps' : 'iterations';
}

/** Along what a run's points lie. */
function along({ at, columns }: Points, began: number, over: Over): ArrayLike<number> {
  switch (over) {
    case 'steps':
      return columns.get(STEPS) ?? [];
    case 'iterations':
      return columns.get(ITERATION) ?? at.map((_, i) => i + 1);
    case 'time':
      // By its own account, which leaves out the time in which nobody asked for results.
      return columns.get(TIME) ?? at.map(each => each - began);
  }
}

export function seriesOf({ run, began }: LearningLabel, points: Points, metric: string, over: Over): Series {
  const xs = along(points, began, over);
  const ys = points.columns.get(metric) ?? [];
  const there = Array.from(points.at.keys()).filter(i => Number.isFinite(xs[i]) && Number.isFinite(ys[i]));
  const pick = (column: ArrayLike<number> | undefined) =>
    column ? Float64Array.from(there, i => column[i]!) : new Float64Array(0);
  const isReturn = metric === RETURN;
  return {
    run,
    x: pick(xs),
    y: pick(ys),
    low: pick(isReturn ? points.columns.get(LOWEST) : undefined),
    high: pick(isReturn ? points.columns.get(HIGHEST) : undefined)
  };
}

/** The point of a curve that is nearest to a place along it; NONE if it has none. */
export function nearest({ x }: Series, place: number): number {
  let found = NONE;
  for (let i = 0; i < x.length; i++) {
    if (found === NONE || Math.abs(x[i]! - place) < Math.abs(x[found]! - place)) {
      found = i;
    }
  }
  return found;
}

/** The latest value of a metric; NaN if there is none. */
export function latest({ columns }: Points, metric: string): number {
  const column = columns.get(metric);
  for (let i = (column?.length ?? 0) - 1; i >= 0; i--) {
    if (!Number.isNaN(column![i]!)) {
      return column![i]!;
    }
  }
  return Number.NaN;
}

/** What a run is called among others: runs of one algorithm on one environment have the same title. */
export function runName({ run, title }: LearningLabel): string {
  return `${integer(run + 1)} · ${title}`;
}

/** The state of a task that is drawn alike. */
export function stateOf(state: RunState): State {
  switch (state) {
    case 'running':
      return State.running;
    case 'paused':
      return State.waiting;
    case 'reached':
      return State.finished;
    case 'stopped':
      return State.cancelled;
    case 'diverged':
    case 'failed':
      return State.failed;
  }
}

/** How long a run has learned, in seconds: by its own account, or since it began. */
function secondsOf(points: Points, { began, ended }: LearningLabel): number {
  const own = latest(points, TIME);
  const until = Number.isFinite(ended) ? ended : (points.at[points.at.length - 1] ?? Number.NaN);
  return Number.isNaN(own) ? until - began : own;
}

/** The runs as a table, with the latest value of a metric. */
export function tableOf(runs: LearningRuns, metric: string): Table {
  const label = (run: number) => runs.label(run)!;
  const counted = (key: string, title: string, name: string, from: number): Column => ({
    key,
    title,
    grow: 0.7,
    from,
    isNumber: true,
    text: run => {
      const value = latest(runs.of(run), name);
      return Number.isNaN(value) ? '' : integer(Math.round(value));
    },
    value: run => latest(runs.of(run), name)
  });
  return {
    items: runs.labels.map(({ run }) => run),
    columns: [
      { key: 'run', title: __('Run'), grow: 2, from: 0, text: run => runName(label(run)), value: run => run },
      {
        key: 'state',
        title: __('State'),
        grow: 1.1,
        from: 300,
        text: run => runStateName(label(run).state)
      },
      {
        key: 'value',
        title: metric,
        grow: 1,
        from: 0,
        isNumber: true,
        text: run => numberText(latest(runs.of(run), metric)),
        value: run => latest(runs.of(run), metric)
      },
      counted('steps', __('Steps'), STEPS, 380),
      counted('iteration', __('Iteration'), ITERATION, 640),
      counted('rate', __('Steps/s'), RATE, 520),
      {
        key: 'time',
        title: __('Time'),
        grow: 0.6,
        from: 420,
        isNumber: true,
        text: run => duration(secondsOf(runs.of(run), label(run))),
        value: run => secondsOf(runs.of(run), label(run))
      },
      { key: 'settings', title: __('Settings'), grow: 2, from: 720, text: run => label(run).settings }
    ],
    words: run => [runName(label(run)), label(run).settings, runStateName(label(run).state), label(run).why],
    row: () => NONE,
    state: run => stateOf(label(run).state),
    hint: run => label(run).why || label(run).settings
  };
}
