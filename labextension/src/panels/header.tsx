// The header: progress, counts by state, and the machine's load.

import { type ComponentChildren, Fragment } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { integer, short, size, stopwatch } from '../i18n/format';
import { stateHint, stateName } from '../i18n/states';
import { __, _n } from '../i18n/translate';
import { inheritedIn } from '../model/failures';
import type { TaskGraph } from '../model/graph';
import { cpusOf } from '../model/machines';
import { workOf } from '../model/work';
import { type Counts, State } from '../protocol/messages';
import { Glyph, Mark } from './shared/icons';
import type { PanelState } from './shared/state';
import { watch } from './shared/watch';

/** In the order of a task's life; the bar shows them from the finished end. */
const CHIPS = [State.running, State.queued, State.waiting, State.finished, State.failed, State.cancelled] as const;
const BAR = [State.finished, State.failed, State.cancelled, State.running, State.queued, State.waiting] as const;
/** So many CPUs are drawn as one cell each. */
const CPU_CELLS_MAX = 16;

function countOf(counts: Counts, state: State): number {
  switch (state) {
    case State.waiting:
      return counts.waiting;
    case State.queued:
      return counts.queued;
    case State.running:
      return counts.running;
    case State.finished:
      return counts.finished;
    case State.failed:
      return counts.failed;
    case State.cancelled:
      return counts.cancelled;
    default:
      return 0;
  }
}

/** Renders again as time passes. */
function useSeconds(isRunning: boolean): void {
  const [, setNow] = useState(0);
  useEffect(() => {
    if (!isRunning) {
      return undefined;
    }
    const timer = setInterval(() => setNow(n => n + 1), 1000);
    return () => clearInterval(timer);
  }, [isRunning]);
}

export function Header({ state, graph }: { state: PanelState; graph: TaskGraph }) {
  watch(state.tick);
  const { counts } = graph;
  const ended = counts.finished + counts.failed + counts.cancelled;
  const open = counts.waiting + counts.queued + counts.running;
  useSeconds(open > 0 && !graph.isStill);
  const nInherited = inheritedIn(graph).n;
  return (
    <header class="cm-header">
      <div class="cm-headline">
        <span class="cm-big">{integer(ended)}</span>
        <span class="cm-of">{_n('of %2 task', 'of %2 tasks', ended + open)}</span>
        <span class="cm-spring" />
        {!graph.isStill && open > 0 && <Rate graph={graph} />}
        <Clock graph={graph} />
        <Pin state={state} />
      </div>
      <Bar counts={counts} nInherited={nInherited} />
      <div class="cm-chips" role="group" aria-label={__('States; press one to light its tasks')}>
        {CHIPS.filter(s => countOf(counts, s) > 0 || state.stateFilter.value === s).map(s => (
          <button
            type="button"
            key={s}
            class="cm-chip"
            aria-pressed={state.stateFilter.value === s}
            title={__('%1; press to light them', stateHint(s))}
            onClick={() => {
              state.stateFilter.value = state.stateFilter.value === s ? null : s;
            }}
          >
            <Mark state={s} />
            <b>{integer(countOf(counts, s))}</b> {stateName(s)}
            {s === State.failed && nInherited > 0 && (
              <span class="cm-inherited">{__('%1 of them only through their inputs', integer(nInherited))}</span>
            )}
          </button>
        ))}
      </div>
      <div class="cm-meters">
        {state.moment.value === null && <Cpu graph={graph} /> /* of the past it is known once a second only */}
        <Store graph={graph} />
      </div>
      <Notes graph={graph} />
    </header>
  );
}

function Pin({ state }: { state: PanelState }) {
  watch(state.tick); // notebooks are renamed
  const isPinned = state.isPinned.value;
  const label = state.connection.value?.transport.label ?? '';
  return (
    isPinned !== null && (
      <button
        type="button"
        class="cm-quiet cm-pin"
        aria-pressed={isPinned}
        aria-label={__('Stay with %1', label)}
        title={isPinned ? __('Stays with %1; press to follow the notebook in front', label) : __('Stay with %1', label)}
        onClick={() => (state.isPinned.value = !isPinned)}
      >
        <Glyph name="pin" />
      </button>
    )
  );
}

/** The duration of the current or last work, with the name of its cell. */
function Clock({ graph }: { graph: TaskGraph }) {
  const { label, seconds, isOpen } = workOf(graph, graph.time(performance.now()));
  const hint = isOpen
    ? __('Since the first task of this run was submitted')
    : __('From the submission of the first task of this run to the end of its last one');
  return (
    <span class="cm-clock" title={hint}>
      <span class="cm-soft">{label || __('work')}</span> {stopwatch(seconds)}
    </span>
  );
}

/** The bar: the share that has ended is solid, the rest is pale. */
function Bar({ counts, nInherited }: { counts: Counts; nInherited: number }) {
  const total = BAR.reduce<number>((sum, state) => sum + countOf(counts, state), 0);
  const ended = counts.finished + counts.failed + counts.cancelled;
  return (
    <div
      class="cm-bar"
      role="progressbar"
      aria-label={__('Tasks ended')}
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={ended}
      title={_n('%3 of %2 task has ended', '%3 of %2 tasks have ended', total, integer(ended))}
    >
      {BAR.map(state => {
        const n = countOf(counts, state) - (state === State.failed ? nInherited : 0);
        return (
          <Fragment key={state}>
            {n > 0 && <i class={`cm-fill-${state}`} style={`flex-grow: ${n}`} />}
            {state === State.failed && nInherited > 0 && (
              <i class="cm-fill-inherited" style={`flex-grow: ${nInherited}`} />
            )}
          </Fragment>
        );
      })}
    </div>
  );
}

const LINE_WIDTH = 72;
const LINE_HEIGHT = 18;
const LINE_S = 20;
const LINE_STEPS = 40;

/** Tasks per second now, and over the last seconds as a line. */
function Rate({ graph }: { graph: TaskGraph }) {
  const history = graph.rates.samples;
  const last = history[history.length - 1];
  const rate = graph.rates.perSecond();
  if (!last || rate === 0) {
    return null;
  }
  const seconds = Math.min(LINE_S, last.now - history[0]!.now);
  const rates: number[] = [];
  let at = 0;
  for (let step = 0; step <= LINE_STEPS; step++) {
    // The number of tasks that had ended at evenly spaced times; differences are rates.
    const now = last.now - seconds + (step * seconds) / LINE_STEPS;
    while (at + 1 < history.length && history[at + 1]!.now <= now) {
      at++;
    }
    const here = history[at]!;
    const next = history[at + 1];
    const share = next && next.now > here.now ? Math.max(0, now - here.now) / (next.now - here.now) : 0;
    rates.push(here.ended + (next ? (next.ended - here.ended) * Math.min(1, share) : 0));
  }
  const steps = rates.slice(1).map((ended, i) => ended - rates[i]!);
  const top = Math.max(...steps, 1e-9);
  const points = steps.map((step, i) => {
    const [x, y] = [(i * LINE_WIDTH) / (steps.length - 1), LINE_HEIGHT - 1 - (step / top) * (LINE_HEIGHT - 3)];
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <span class="cm-rate" title={__('Tasks that ended per second, over the last %1 seconds', LINE_S)}>
      <svg
        class="cm-line"
        viewBox={`0 0 ${LINE_WIDTH} ${LINE_HEIGHT}`}
        width={LINE_WIDTH}
        height={LINE_HEIGHT}
        aria-hidden="true"
      >
        <path class="cm-line-area" d={`M0,${LINE_HEIGHT} L${points.join(' L')} L${LINE_WIDTH},${LINE_HEIGHT} Z`} />
        <path class="cm-line-top" d={`M${points.join(' L')}`} />
      </svg>
      <span>
        <b>{short(rate)}</b>/s
      </span>
    </span>
  );
}

function Meter({
  label,
  value,
  title,
  children
}: {
  label: string;
  value: string;
  title?: string;
  children: ComponentChildren;
}) {
  return (
    <div class="cm-meter" title={title}>
      <span class="cm-label">{label}</span>
      {children}
      <span class="cm-value">{value}</span>
    </div>
  );
}

function Cpu({ graph }: { graph: TaskGraph }) {
  const { used, total, nMachines } = cpusOf(graph);
  if (!total) {
    return null;
  }
  const cells = Math.round(total);
  return (
    <Meter
      label={__('CPU')}
      value={`${short(used)} / ${short(total)}`}
      title={
        nMachines > 1
          ? _n('What tasks have taken, of %2 machine', 'What tasks have taken, of %2 machines together', nMachines)
          : __('What tasks have taken')
      }
    >
      {cells <= CPU_CELLS_MAX ? (
        <span class="cm-cells" aria-hidden="true">
          {Array.from({ length: cells }, (_, i) => (
            <i key={i} style={{ '--cm-share': Math.min(1, Math.max(0, used - i)) }} />
          ))}
        </span>
      ) : (
        <Gauge share={used / total} kind="cm-busy" />
      )}
    </Meter>
  );
}

function Store({ graph }: { graph: TaskGraph }) {
  const { used, capacity } = graph.store;
  if (!capacity) {
    return null;
  }
  return (
    <Meter label={__('Store')} value={`${size(used)} / ${size(capacity)}`}>
      <Gauge share={used / capacity} kind={used > 0.9 * capacity ? 'cm-tight' : ''} />
    </Meter>
  );
}

function Gauge({ share, kind }: { share: number; kind: string }) {
  return (
    <span class={`cm-gauge ${kind}`} aria-hidden="true">
      <i style={{ width: `${Math.min(100, share * 100).toFixed(1)}%` }} />
    </span>
  );
}

/** Says what the picture does not show. */
function Notes({ graph }: { graph: TaskGraph }) {
  const notes = [
    graph.aggregated > 0 &&
      _n('%2 earlier task is counted but not drawn', '%2 earlier tasks are counted but not drawn', graph.aggregated),
    graph.dropped > 0 &&
      _n('%2 event came too fast and was not seen', '%2 events came too fast and were not seen', graph.dropped),
    graph.behind > 5000 && __('catching up: %1 changes to come', short(graph.behind))
  ].filter(Boolean);
  return notes.length ? <div class="cm-notes">{notes.join('  ·  ')}</div> : null;
}
