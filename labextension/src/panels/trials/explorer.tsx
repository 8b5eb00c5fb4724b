// One experiment: a plot of its trials, their table, and the trial that is chosen in both.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { message } from '../../connection/connection';
import { curvesPlot, parallelPlot, scatterPlot } from '../../draw/trial_plots';
import { integer } from '../../i18n/format';
import { trialStateName } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import { NONE } from '../../model/rows';
import type { Trials } from '../../model/trials';
import { type Axis, axisOf, numberText } from '../../model/views/axis';
import { type Order, search, sorted } from '../../model/views/table';
import {
  bestOf,
  CURVE,
  dimension,
  dimensions,
  metricsOf,
  settingText,
  stateOf,
  tableOf,
  varying
} from '../../model/views/trials';
import type { ExperimentLabel, TrialState } from '../../protocol/messages';
import { useTheme } from '../shared/canvas';
import { Choices, Select } from '../shared/choices';
import { Grid } from '../shared/grid';
import { Mark } from '../shared/icons';
import { useSearchWish } from '../shared/search_wish';
import type { PanelState } from '../shared/state';
import { Chosen } from './chosen';
import { TrialPicture } from './picture';
import { Sparkline } from './sparkline';
import { steer } from './steering';

/** Parallel coordinates have room for so many axes: parameters, then the metric. */
const N_AXES_MAX = 9;
/** In tooltips. */
const N_SETTINGS = 6;

interface ExplorerProps {
  state: PanelState;
  label: ExperimentLabel;
  trials: Trials;
  now: number;
  canSteer: boolean;
  /** Changes with what is to be shown. */
  version: string;
}

export function Explorer({ state, label, trials, now, canSteer, version }: ExplorerProps) {
  const choice = state.trials;
  const [query, setQuery] = useState('');
  const field = useRef<HTMLInputElement>(null);
  useSearchWish(state, field);
  const metric = choice.metric.value || label.metric || trials.metric;
  const bestFirst: Order = { key: `metric ${metric}`, isDescending: label.mode === 'max' };
  const order = choice.order.value ?? bestFirst;
  const plot = choice.plot.value;
  const isLog = choice.isLog.value;
  const options = useMemo(() => dimensions(trials, metric), [trials, trials.version, metric]);
  const key = (wish: string, at: number) =>
    (options.find(each => each.key === wish) ?? options[Math.min(at, options.length - 1)])?.key ?? '';
  const [x, y] = [key(choice.x.value, 0), key(choice.y.value || `metric ${metric}`, 1)];
  const values = useMemo(() => valueAxis(trials, isLog), [trials, trials.version, isLog]);
  const table = useMemo(() => tableOf(trials, metric, now), [trials, version, metric]);
  const items = useMemo(
    () => sorted(search(table, query), table.columns, order),
    [table, query, order.key, order.isDescending]
  );
  const best = useMemo(() => bestOf(trials, metric, label.mode), [trials, trials.version, metric, label.mode]);
  const trial = trials.isKnown(choice.trial.value) ? choice.trial.value : NONE;
  const chosen = items.indexOf(trial);
  const choose = (wish: number) => (choice.trial.value = wish);

  // ---- the plot
  const frame = useRef<HTMLDivElement>(null);
  const picture = useRef<TrialPicture | null>(null);
  const theme = useTheme(frame, state.look.value);
  const latest = useRef({ trials, metric, plot, isLog, x, y, values, label, items, chosen });
  latest.current = { trials, metric, plot, isLog, x, y, values, label, items, chosen };
  useEffect(() => {
    const view = new TrialPicture(
      frame.current!,
      {
        onChoose: choose,
        onWalk: step => {
          const { items: rows, chosen: at } = latest.current;
          choose(rows[Math.min(rows.length - 1, Math.max(0, at + step))] ?? NONE);
        },
        describe: each => describe(latest.current.trials, each, latest.current.metric)
      },
      size => {
        const now = latest.current;
        switch (now.plot) {
          case 'curves':
            return curvesPlot(now.trials, iterations(now.trials), now.values, now.label.mode, size);
          case 'scatter': {
            const [one, other] = [dimension(now.trials, now.x, null), dimension(now.trials, now.y, now.isLog)];
            return scatterPlot(now.trials, one, other, now.metric, now.label.mode, size);
          }
          case 'parallel': {
            const columns = [
              ...varying(now.trials)
                .slice(0, N_AXES_MAX - 1)
                .map(name => dimension(now.trials, `parameter ${name}`)),
              dimension(now.trials, `metric ${now.metric}`, now.isLog)
            ];
            return parallelPlot(now.trials, columns, now.metric, now.label.mode, size);
          }
        }
      }
    );
    picture.current = view;
    return () => view.dispose();
  }, []);
  useEffect(
    () => picture.current?.refresh({ best, selected: trial }),
    [trials, trials.version, metric, plot, isLog, x, y, values]
  );
  useEffect(() => picture.current?.mark({ best, selected: trial }), [best, trial]);
  useEffect(() => picture.current?.readTheme(), [state.look.value]);

  const goToTask = async () => {
    try {
      const row = (await state.connection.peek()?.trials.rowOf(label.path, trial)) ?? NONE;
      choice.notice.value = row === NONE ? __('Its task is not of this session.') : '';
      state.choose(row === NONE ? null : { kind: 'task', index: row });
    } catch (error) {
      choice.notice.value = message(error);
    }
  };
  return (
    <>
      <div class="cm-table-tools">
        <Choices
          role="radiogroup"
          label={__('Plot')}
          class="cm-kinds"
          items={[
            { key: 'curves', label: __('Curves') },
            { key: 'parallel', label: __('Parallel') },
            { key: 'scatter', label: __('Scatter') }
          ]}
          chosen={plot}
          onChoose={next => (choice.plot.value = next)}
        />
        {plot === 'scatter' && (
          <Select label={__('Across')} value={x} options={options} onChange={wish => (choice.x.value = wish)} />
        )}
        {plot === 'scatter' ? (
          <Select label={__('Upwards')} value={y} options={options} onChange={wish => (choice.y.value = wish)} />
        ) : (
          <Select
            label={__('Metric')}
            value={metric}
            options={metricsOf(trials, metric).map(name => ({ key: name, title: name }))}
            onChange={wish => (choice.metric.value = wish)}
          />
        )}
        <button
          type="button"
          class="cm-toggle"
          aria-pressed={isLog ?? values.isLog}
          title={__('A logarithmic axis, where all values are positive')}
          onClick={() => (choice.isLog.value = !(isLog ?? values.isLog))}
        >
          {__('Log')}
        </button>
        <input
          ref={field}
          type="search"
          class="cm-field"
          placeholder={__('Search')}
          aria-label={__('Search in trials: numbers, states, parameters, errors')}
          value={query}
          onInput={event => setQuery(event.currentTarget.value)}
          onKeyDown={event => event.stopPropagation()}
        />
      </div>
      <div ref={frame} class="cm-trial-frame" />
      <Grid
        label={__('Trials')}
        table={table}
        items={items}
        order={order}
        onOrder={next => (choice.order.value = next)}
        chosen={chosen}
        onChoose={position => choose(items[position]!)}
        mark={item => <Mark state={stateOf(trials, item)} />}
        draw={(column, item) =>
          column === CURVE && theme ? <Sparkline trials={trials} trial={item} axis={values} theme={theme} /> : undefined
        }
        empty={query ? __('Nothing that fits.') : __('None yet.')}
      />
      {trial !== NONE && (
        <Chosen
          trials={trials}
          trial={trial}
          canSteer={canSteer && !Number.isFinite(label.ended)}
          onSteer={what => void steer(state, label.path, what, trial)}
          onTask={state.connection.peek()?.transport.isRecording ? null : () => void goToTask()}
          onClose={() => choose(NONE)}
        />
      )}
    </>
  );
}

/** The axis of the curves' values. */
function valueAxis(trials: Trials, isLog: boolean | null): Axis {
  return axisOf('y', trials.metric, points(trials, 'y'), [], isLog);
}

function iterations(trials: Trials): Axis {
  return axisOf('x', __('Iteration'), points(trials, 'x'), [], false);
}

function* points(trials: Trials, of: 'x' | 'y'): Generator<number> {
  for (const curve of trials.curves) {
    yield* curve[of];
  }
}

/** The lines of a trial's tooltip. */
function describe(trials: Trials, trial: number, metric: string): string[] {
  const settings = varying(trials)
    .slice(0, N_SETTINGS)
    .map(name => `${name} ${settingText(trials, name, trial)}`);
  return [
    `${__('Trial %1', integer(trial))}  ·  ${trialStateName(trials.state[trial] as TrialState)}`,
    `${metric} ${numberText(trials.metricOf(metric)[trial]!)}`,
    settings.join('  ·  '),
    trials.errors.get(trial)?.split('\n')[0] ?? ''
  ].filter(Boolean);
}
