// An experiment as a table and as axes of plots. Pure.

import { duration, integer } from '../../i18n/format';
import { trialStateName } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import { type Mode, State, TrialState } from '../../protocol/messages';
import { NONE } from '../rows';
import { NO_CURVE, type Trials } from '../trials';
import { type Axis, axisOf, numberText, valueText } from './axis';
import type { Column, Table } from './table';

export const ITERATION = 'training_iteration';
export const TIME = 'time_total_s';
/** The key of the column that the view draws itself. */
export const CURVE = 'curve';
/** Columns beyond the first appear with so much more room each. */
const [FIRST_PX, EACH_PX] = [430, 85];

/** What counts as now, where reports are dense. */
const RATE_S = 10;

/** The state of a task that is drawn alike. */
export function stateOf(trials: Trials, trial: number): State {
  switch (trials.state[trial] as TrialState) {
    case TrialState.pending:
      return State.queued;
    case TrialState.running:
      return State.running;
    case TrialState.paused:
      return State.waiting;
    case TrialState.ended:
      return State.finished;
    case TrialState.failed:
      return State.failed;
  }
}

/** How long a trial has run, in seconds: by its own account, or since it began. */
export function secondsOf(trials: Trials, trial: number, now: number): number {
  const own = trials.metrics.get(TIME)?.[trial] ?? Number.NaN;
  if (!Number.isNaN(own)) {
    return own;
  }
  const ended = trials.ended[trial]!;
  return (Number.isNaN(ended) ? now : ended) - trials.started[trial]!;
}

/**
 * Iterations that a trial reports each second: over its last reports, of `RATE_S` seconds or two of them; NaN if there
 * are fewer.
 */
export function iterationsPerSecond(trials: Trials, trial: number): number {
  const { at, x } = trials.curves[trial] ?? NO_CURVE;
  const last = at.length - 1;
  let first = last - 1;
  while (first > 0 && at[last]! - at[first]! < RATE_S) {
    first--;
  }
  const seconds = first >= 0 ? at[last]! - at[first]! : 0;
  return seconds > 0 ? (x[last]! - x[first]!) / seconds : Number.NaN;
}

/** The same of all trials that run. */
export function throughput(trials: Trials): number {
  const rates = trials
    .all()
    .filter(trial => trials.state[trial] === TrialState.running)
    .map(trial => iterationsPerSecond(trials, trial));
  return rates.reduce((sum, rate) => sum + (rate > 0 ? rate : 0), 0);
}

/** A parameter's value in words. */
export function settingText(trials: Trials, name: string, trial: number): string {
  return valueText({ words: trials.words.get(name) ?? [] }, trials.parameters.get(name)?.[trial] ?? Number.NaN);
}

/** The parameters that differ between trials, in the order in which they were given. */
export function varying(trials: Trials): string[] {
  const items = trials.all();
  return [...trials.parameters]
    .filter(([, column]) => {
      const first = items.map(trial => column[trial]!).find(value => !Number.isNaN(value));
      return items.some(trial => !Number.isNaN(column[trial]!) && column[trial] !== first);
    })
    .map(([name]) => name);
}

/** The metrics that a plot can show, the experiment's first. */
export function metricsOf(trials: Trials, metric: string): string[] {
  const names = [...trials.metrics.keys()];
  return names.includes(metric) ? [metric, ...names.filter(name => name !== metric)] : names;
}

/** The trial whose latest value is the best; NONE if none has one. */
export function bestOf(trials: Trials, metric: string, mode: Mode): number {
  const column = trials.metricOf(metric);
  const sign = mode === 'min' ? -1 : 1;
  let best = NONE;
  for (const trial of trials.all()) {
    const value = column[trial]!;
    if (Number.isFinite(value) && (best === NONE || sign * value > sign * column[best]!)) {
      best = trial;
    }
  }
  return best;
}

export function tableOf(trials: Trials, metric: string, now: number): Table {
  const fixed: Column[] = [
    { key: 'trial', title: __('Trial'), grow: 0.6, from: 0, text: trial => String(trial), value: trial => trial },
    {
      key: 'state',
      title: __('State'),
      grow: 0.9,
      from: 380,
      text: trial => trialStateName(trials.state[trial] as TrialState),
      value: trial => trials.state[trial]!
    },
    ...(metric ? [metricColumn(trials, metric, 0)] : []),
    { key: CURVE, title: __('Curve'), grow: 1, from: 300, text: () => '', value: () => 0 },
    {
      key: 'iteration',
      title: __('Iteration'),
      grow: 0.7,
      from: 260,
      isNumber: true,
      text: trial => (trials.iteration[trial]! > 0 ? integer(trials.iteration[trial]!) : ''),
      value: trial => trials.iteration[trial]!
    },
    {
      key: 'time',
      title: __('Time'),
      grow: 0.7,
      from: 420,
      isNumber: true,
      text: trial => duration(secondsOf(trials, trial, now)),
      value: trial => secondsOf(trials, trial, now)
    }
  ];
  const settings = varying(trials).map((name, i) => settingColumn(trials, name, FIRST_PX + EACH_PX * i));
  const others = [...trials.metrics.keys()]
    .filter(name => name !== metric && name !== ITERATION && name !== TIME)
    .map((name, i) => metricColumn(trials, name, FIRST_PX + EACH_PX * (settings.length + i)));
  return {
    items: trials.all(),
    columns: [...fixed, ...settings, ...others],
    words: trial => [
      String(trial),
      trialStateName(trials.state[trial] as TrialState),
      ...[...trials.words].filter(([, words]) => words.length).map(([name]) => settingText(trials, name, trial)),
      trials.errors.get(trial) ?? ''
    ],
    row: () => NONE,
    state: trial => stateOf(trials, trial),
    hint: trial => trials.errors.get(trial) ?? trials.why.get(trial) ?? ''
  };
}

function metricColumn(trials: Trials, name: string, from: number): Column {
  const column = trials.metricOf(name);
  return {
    key: `metric ${name}`,
    title: name,
    grow: 0.9,
    from,
    isNumber: true,
    text: trial => numberText(column[trial]!),
    value: trial => column[trial]!
  };
}

function settingColumn(trials: Trials, name: string, from: number): Column {
  const column = trials.parameters.get(name)!;
  const words = trials.words.get(name) ?? [];
  return {
    key: `parameter ${name}`,
    title: name,
    grow: 0.9,
    from,
    ...(words.length ? {} : { isNumber: true, value: (trial: number) => column[trial]! }),
    text: trial => settingText(trials, name, trial)
  };
}

/** What can stand on an axis of a scatter plot: parameters that differ, then metrics. */
export function dimensions(trials: Trials, metric: string): { key: string; title: string }[] {
  return [
    ...varying(trials).map(name => ({ key: `parameter ${name}`, title: name })),
    ...metricsOf(trials, metric).map(name => ({ key: `metric ${name}`, title: name }))
  ];
}

/** A dimension's values by trial, and its axis. */
export function dimension(
  trials: Trials,
  key: string,
  isLog: boolean | null = null
): { values: Float64Array; axis: Axis } {
  const name = key.slice(key.indexOf(' ') + 1);
  const isParameter = key.startsWith('parameter ');
  const values = isParameter
    ? (trials.parameters.get(name) ?? new Float64Array(trials.n).fill(Number.NaN))
    : trials.metricOf(name);
  const words = isParameter ? (trials.words.get(name) ?? []) : [];
  const shown = trials.all().map(trial => values[trial]!);
  return { values, axis: axisOf(key, name, shown, words, isLog) };
}
