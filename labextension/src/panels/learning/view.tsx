// The view of learning: the runs of a kernel as curves of one metric, and as a table. Loaded when first opened.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { learningPlot, runColour } from '../../draw/learning_plot';
import { integer } from '../../i18n/format';
import { runStateName } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import type { LearningRuns } from '../../model/learning';
import { NONE } from '../../model/rows';
import { axisOf, numberText } from '../../model/views/axis';
import {
  isLoss,
  metricFirst,
  metricsOf,
  type Over,
  overFirst,
  runName,
  seriesOf,
  stateOf,
  tableOf
} from '../../model/views/learning';
import { search, sorted } from '../../model/views/table';
import type { LearningLabel } from '../../protocol/messages';
import { useTheme } from '../shared/canvas';
import { Choices, ChooseNone, Select } from '../shared/choices';
import { Grid } from '../shared/grid';
import { Mark } from '../shared/icons';
import { useSearchWish } from '../shared/search_wish';
import type { PanelState, ViewProps } from '../shared/state';
import { watch } from '../shared/watch';
import { LearningPicture } from './picture';

/** In a tooltip. */
const N_VALUES = 10;

export function Learning({ state }: ViewProps) {
  watch(state.tick);
  const link = state.connection.value?.learning;
  const moment = state.moment.value;
  useEffect(() => {
    link?.watch(true);
    return () => link?.watch(false);
  }, [link]);
  const live = link?.runs;
  const runs = useMemo(
    () => (live && moment !== null ? live.at(moment) : live),
    [live, moment, moment === null ? 0 : live?.version]
  );
  if (!runs || !live?.labels.length) {
    return (
      <p class="cm-empty cm-soft">
        {__('Nothing learns yet: train an algorithm of cellmesh.rl, and its run appears here.')}
      </p>
    );
  }
  return <Runs state={state} runs={runs} version={`${live.version} ${moment ?? ''}`} />;
}

interface RunsProps {
  state: PanelState;
  runs: LearningRuns;
  /** Changes with what is to be shown. */
  version: string;
}

function Runs({ state, runs, version }: RunsProps) {
  const choice = state.learning;
  const field = useRef<HTMLInputElement>(null);
  useSearchWish(state, field);
  const metrics = useMemo(() => metricsOf(runs), [version]);
  const metric = metrics.includes(choice.metric.value) ? choice.metric.value : metricFirst(runs, metrics);
  const over = choice.over.value || overFirst(runs);
  const order = choice.order.value;
  const query = choice.query.value;
  const table = useMemo(() => tableOf(runs, metric), [version, metric]);
  const items = useMemo(
    () => sorted(search(table, query), table.columns, order),
    [table, query, order.key, order.isDescending]
  );
  const run = items.includes(choice.run.value) ? choice.run.value : NONE;
  const choose = (wish: number) => (choice.run.value = wish);
  const plotted = useMemo(
    () => plottedOf(runs, items, metric, over, choice.isLog.value),
    [version, items, metric, over, choice.isLog.value]
  );

  // ---- the plot
  const frame = useRef<HTMLDivElement>(null);
  const picture = useRef<LearningPicture | null>(null);
  const theme = useTheme(frame, state.look.value);
  const latest = useRef({ runs, plotted });
  latest.current = { runs, plotted };
  useEffect(() => {
    const view = new LearningPicture(
      frame.current!,
      {
        onChoose: choose,
        describe: places => [
          `${latest.current.plotted.x.title} ${numberText(places[0]!.x)}`,
          ...places
            .slice(0, N_VALUES)
            .map(place => `${runName(latest.current.runs.label(place.run)!)}  ${numberText(place.y)}`)
        ]
      },
      size => {
        const { series, x, y, goal } = latest.current.plotted;
        return learningPlot(series, x, y, goal, size);
      }
    );
    picture.current = view;
    return () => view.dispose();
  }, []);
  useEffect(() => picture.current?.refresh(run), [plotted, run]);
  useEffect(() => picture.current?.readTheme(), [state.look.value]);

  const chosen = runs.label(run);
  return (
    <div class="cm-tables cm-trials cm-learning">
      <div class="cm-table-tools">
        <Select
          label={__('Metric')}
          value={metric}
          options={metrics.map(name => ({ key: name, title: name }))}
          onChange={wish => (choice.metric.value = wish)}
        />
        <Choices
          role="radiogroup"
          label={__('Over')}
          class="cm-kinds"
          items={[
            { key: 'steps', label: __('Steps') },
            { key: 'time', label: __('Time') },
            { key: 'iterations', label: __('Iterations') }
          ]}
          chosen={over}
          onChoose={next => (choice.over.value = next)}
        />
        <button
          type="button"
          class="cm-toggle"
          aria-pressed={plotted.y.isLog}
          title={__('A logarithmic axis, where all values are positive')}
          onClick={() => (choice.isLog.value = !plotted.y.isLog)}
        >
          {__('Log')}
        </button>
        <input
          ref={field}
          type="search"
          class="cm-field"
          placeholder={__('Search')}
          aria-label={__('Search in runs: algorithms, environments, settings; the others are not shown')}
          value={query}
          onInput={event => (choice.query.value = event.currentTarget.value)}
          onKeyDown={event => event.stopPropagation()}
        />
      </div>
      <div ref={frame} class="cm-trial-frame" />
      <Grid
        label={__('Runs of learning')}
        table={table}
        items={items}
        order={order}
        onOrder={next => (choice.order.value = next)}
        chosen={items.indexOf(run)}
        onChoose={position => choose(items[position]!)}
        mark={item => <i class="cm-swatch" style={{ background: theme ? runColour(theme, item) : '' }} />}
        empty={query ? __('Nothing that fits.') : __('None yet.')}
      />
      {chosen && <Chosen label={chosen} onClose={() => choose(NONE)} />}
    </div>
  );
}

/** The run that stands out: with what it learns, and why it is over. */
function Chosen({ label, onClose }: { label: LearningLabel; onClose: () => void }) {
  const { settings, state, why } = label;
  return (
    <section class="cm-trial" aria-label={__('Run %1', integer(label.run + 1))}>
      <div class="cm-trial-line">
        <Mark state={stateOf(state)} />
        <b>{runName(label)}</b>
        <span class="cm-soft">{runStateName(state)}</span>
        <span class="cm-spring" />
        <ChooseNone onClick={onClose} />
      </div>
      {settings && <p class="cm-soft cm-run-settings">{settings}</p>}
      {why && <pre class="cm-trial-error">{why}</pre>}
    </section>
  );
}

/** The curves of some runs and their axes. A goal is shown that all of them share. */
function plottedOf(runs: LearningRuns, items: readonly number[], metric: string, over: Over, isLog: boolean | null) {
  const labels = items.map(run => runs.label(run)!);
  const series = labels.map(label => seriesOf(label, runs.of(label.run), metric, over));
  const goals = new Set(labels.map(label => (label.goal === metric ? label.goal_value : Number.NaN)));
  const value = goals.size === 1 ? [...goals][0]! : Number.NaN;
  const goal = { value, text: Number.isNaN(value) ? '' : __('goal %1', numberText(value)) };
  const xs = series.flatMap(each => [...each.x]);
  const ys = [...series.flatMap(each => [...each.y]), value];
  if (series.length === 1) {
    ys.push(...series[0]!.low, ...series[0]!.high);
  }
  return {
    series,
    goal,
    x: axisOf('x', titleOf(over), xs, [], false),
    y: axisOf('y', metric, ys, [], isLog ?? (isLoss(metric) ? null : false))
  };
}

function titleOf(over: Over): string {
  switch (over) {
    case 'steps':
      return __('Steps');
    case 'time':
      return __('Seconds');
    case 'iterations':
      return __('Iterations');
  }
}
