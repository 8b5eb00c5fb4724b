// The whole panel: header, one of the views, card, actors; or a sentence where there is nothing to show.

import { useEffect, useRef } from 'preact/hooks';
import type { TaskGraph } from '../../model';
import { Actors } from './actors';
import { __ } from '../../text';
import { HistoryBar } from '../history/bar';
import { bind } from './bind';
import { type CanvasOptions, GraphCanvas, type Show } from './canvas';
import { Card } from './card';
import { describeGroup, describeRow, summary } from './describe';
import { Header } from './header';
import { Emblem, Glyph } from './icons';
import { lazily } from './lazily';
import type { PanelState, ViewProps } from './state';

const Timeline = lazily<ViewProps>(async () => (await import('../timeline/view')).Timeline);
const Tables = lazily<ViewProps>(async () => (await import('../tables/view')).Tables);
const Memory = lazily<ViewProps>(async () => (await import('../memory/view')).Memory);
const Machine = lazily<ViewProps>(async () => (await import('../machine/view')).Machine);
const Logs = lazily<ViewProps>(async () => (await import('../logs/view')).Logs);

/** A screen reader is told of progress this often. */
const SPOKEN_MS = 6000;

export interface BodyProps {
  state: PanelState;
  options: CanvasOptions;
  /** Outside JupyterLab, where the page's attributes do not tell. */
  isDark?: boolean;
}

export function Body({ state, options, isDark }: BodyProps) {
  const status = state.status.value;
  const connection = state.connection.value;
  state.tick.value;
  useEffect(() => {
    const observer = new MutationObserver(() => {
      state.look.value++;
    });
    observer.observe(document.body, { attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light', 'class'] });
    return () => observer.disconnect();
  }, [state]);
  const hasPicture = connection !== null && connection.graph.n > 0 && (status === 'live' || status === 'lost' || status === 'connecting');
  return (
    <div class={`cm-panel cm-is-${status}${isDark ? ' cm-dark' : ''}${state.graph?.isStill ? ' cm-still' : ''}`}>
      {hasPicture ? <Live state={state} graph={state.graph!} options={options} /> : <Nothing state={state} />}
      <Spoken state={state} />
    </div>
  );
}

function Live({ state, graph, options }: BodyProps & { graph: TaskGraph }) {
  const isLost = state.status.value === 'lost';
  return (
    <>
      {isLost && (
        <div class="cm-banner" role="status">
          {__('No connection to the kernel. This is the last that was seen.')}
        </div>
      )}
      <Header state={state} graph={graph} />
      <div class="cm-stage">
        {state.view.value === 'graph' && <Graph state={state} graph={graph} options={options} />}
        {state.view.value === 'timeline' && <Timeline state={state} graph={graph} options={options} />}
        {state.view.value === 'tables' && <Tables state={state} graph={graph} options={options} />}
        {state.view.value === 'memory' && <Memory state={state} graph={graph} options={options} />}
        {state.view.value === 'machine' && <Machine state={state} graph={graph} options={options} />}
        {state.view.value === 'logs' && <Logs state={state} graph={graph} options={options} />}
        <Tools state={state} />
        <Card state={state} graph={graph} />
      </div>
      <HistoryBar state={state} graph={state.connection.value!.graph} />
      <Actors state={state} graph={graph} />
    </>
  );
}

function Graph({ state, graph, options }: BodyProps & { graph: TaskGraph }) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<GraphCanvas | null>(null);
  useEffect(() => {
    const view = new GraphCanvas(
      host.current!,
      graph,
      {
        onSelect: picked => state.choose(picked),
        onOpen: picked => {
          state.choose(picked);
          if (picked.kind === 'group') {
            view.expand(picked.index);
          } else {
            host.current?.parentElement?.querySelector<HTMLElement>('.cm-actions button')?.focus();
          }
        },
        onView: ({ isFollowing, showsGroups }) => {
          state.isFollowing.value = isFollowing;
          state.showsGroups.value = showsGroups;
        }
      },
      options
    );
    view.setShow(state.show.peek());
    canvas.current = view;
    state.canvas.value = view;
    const unbind = bind(view, state, picked => view.select(picked));
    return () => {
      state.canvas.value = null;
      unbind();
    };
  }, []);
  useEffect(() => canvas.current?.setGraph(graph), [graph]);
  return <div ref={host} class="cm-graph" />;
}

function Tools({ state }: { state: PanelState }) {
  const canvas = state.canvas.value;
  const view = state.view.value;
  const showsGroups = state.showsGroups.value;
  state.tick.value; // a session may become part of a cluster
  const isClustered = state.connection.value?.graph.isClustered ?? false;
  const byMachine = isClustered && state.show.value === 'machines';
  const tab = (label: string, isCurrent: boolean, onClick: () => void, title: string) => (
    <button type="button" role="radio" aria-checked={isCurrent} title={title} onClick={onClick}>
      {label}
    </button>
  );
  const show = (what: Show) => {
    state.view.value = 'graph';
    state.show.value = what;
    state.canvas.peek()?.setShow(what);
  };
  return (
    <>
      <div class="cm-tabs" role="radiogroup" aria-label={__('View')}>
        {tab(__('Groups'), view === 'graph' && showsGroups && !byMachine, () => show('groups'), __('One box for each cell and function (G)'))}
        {isClustered && tab(__('By machine'), view === 'graph' && byMachine, () => show('machines'), __('One box for each cell and function on each machine'))}
        {tab(__('Tasks'), view === 'graph' && !showsGroups, () => show('tasks'), __('One box for each task (G)'))}
        {tab(__('Timeline'), view === 'timeline', () => (state.view.value = 'timeline'), __('When tasks ran, worker by worker'))}
        {tab(__('Tables'), view === 'tables', () => (state.view.value = 'tables'), __('Tasks, objects, actors and workers, to sort and search'))}
        {tab(__('Memory'), view === 'memory', () => (state.view.value = 'memory'), __('What holds the memory of the store, and who holds that'))}
        {tab(isClustered ? __('Nodes') : __('Machine'), view === 'machine', () => (state.view.value = 'machine'), __('CPU, memory and store over time'))}
        {tab(__('Logs'), view === 'logs', () => (state.view.value = 'logs'), __('What tasks have printed, to search'))}
      </div>
      {view === 'graph' && canvas && (
        <div class="cm-zoom" role="toolbar" aria-label={__('Point of view')}>
          <button type="button" aria-label={__('Zoom out')} title={__('Zoom out (−)')} onClick={() => canvas.zoom(1 / 1.5)}>
            <Glyph name="minus" />
          </button>
          <button type="button" aria-label={__('Zoom in')} title={__('Zoom in (+)')} onClick={() => canvas.zoom(1.5)}>
            <Glyph name="plus" />
          </button>
          <button type="button" aria-label={__('Show everything')} title={__('Show everything (F)')} onClick={() => canvas.fit()}>
            <Glyph name="fit" />
          </button>
          <button
            type="button"
            aria-label={__('Follow the work')}
            title={__('Follow the work (L)')}
            aria-pressed={state.isFollowing.value}
            onClick={() => canvas.follow(!canvas.isFollowing)}
          >
            <Glyph name="follow" />
          </button>
        </div>
      )}
    </>
  );
}

function Nothing({ state }: { state: PanelState }) {
  const connection = state.connection.value;
  const canLoad = connection?.transport.load !== undefined;
  const sentence = {
    none: __('Open a notebook, and the tasks that it starts appear here.'),
    connecting: __('Saying hello to the kernel …'),
    absent: __('This kernel does not use cellmesh yet.'),
    live: __('Nothing has run yet. Tasks, puts and actors appear here the moment they are made.'),
    lost: __('The kernel has gone; this panel comes back with it.'),
    failed: state.problem.value || (connection?.problem.value ?? '')
  }[state.status.value];
  return (
    <div class="cm-nothing">
      <Emblem />
      <p>{sentence}</p>
      {state.status.value === 'absent' && canLoad && (
        <button type="button" class="cm-primary" onClick={() => void connection?.load()}>
          {__('Load cellmesh')}
        </button>
      )}
      {state.status.value === 'failed' && connection && (
        <button type="button" class="cm-primary" onClick={() => void connection?.start()}>
          {__('Try again')}
        </button>
      )}
      {state.status.value === 'live' && (
        <pre class="cm-hint">{'%%remote\ntotal = sum(range(10_000_000))'}</pre>
      )}
    </div>
  );
}

/** What the picture shows, in words, for those who hear it. */
function Spoken({ state }: { state: PanelState }) {
  const region = useRef<HTMLDivElement>(null);
  const spokenAt = useRef(-SPOKEN_MS);
  const tick = state.tick.value;
  const picked = state.selection.value;
  useEffect(() => {
    const graph = state.graph;
    if (!region.current || !graph) {
      return;
    }
    const now = performance.now();
    if (picked?.kind === 'task' && picked.index < graph.n) {
      region.current.textContent = describeRow(graph, picked.index, graph.time(now)).join(', ');
    } else if (picked?.kind === 'group' && picked.index < graph.groups.list.length) {
      region.current.textContent = describeGroup(graph, picked.index).join(', ');
    }
  }, [picked]);
  useEffect(() => {
    const graph = state.graph;
    const now = performance.now();
    if (!region.current) {
      return;
    }
    if (!graph?.n) {
      region.current.textContent = ''; // of another notebook, or of before a restart
      delete region.current.dataset['summary'];
      return;
    }
    const { counts } = graph;
    const isDone = counts.waiting + counts.ready + counts.running === 0;
    if (isDone || now - spokenAt.current > SPOKEN_MS) {
      const nTasks = counts.waiting + counts.ready + counts.running + counts.finished + counts.failed + counts.cancelled;
      const text = summary(counts, nTasks, graph.elapsed(now));
      if (region.current.dataset['summary'] !== text) {
        region.current.dataset['summary'] = text;
        region.current.textContent = text;
        spokenAt.current = now;
      }
    }
  }, [tick, state.status.value]);
  return <div ref={region} class="cm-spoken" aria-live="polite" />;
}
