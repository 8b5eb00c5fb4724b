// The whole panel: header, one of the views, card and actors; or a sentence if there is nothing to show.

import { useEffect } from 'preact/hooks';
import { __ } from '../i18n/translate';
import type { TaskGraph } from '../model/graph';
import { Actors } from './actors';
import { Card, leaveCard } from './card';
import { Graph } from './graph/view';
import { Header } from './header';
import { HistoryBar } from './history/bar';
import { Emblem } from './shared/icons';
import { lazily } from './shared/lazily';
import type { CanvasOptions } from './shared/picture';
import type { PanelState, ViewProps } from './shared/state';
import { useUniqueId } from './shared/unique';
import { watch } from './shared/watch';
import { Spoken } from './spoken';
import { Tools } from './tools';

const Timeline = lazily<ViewProps>(async () => (await import('./timeline/view')).Timeline);
const Tables = lazily<ViewProps>(async () => (await import('./tables/view')).Tables);
const Memory = lazily<ViewProps>(async () => (await import('./memory/view')).Memory);
const Machine = lazily<ViewProps>(async () => (await import('./machine/view')).Machine);
const Trials = lazily<ViewProps>(async () => (await import('./trials/view')).Trials);
const Learning = lazily<ViewProps>(async () => (await import('./learning/view')).Learning);
const Logs = lazily<ViewProps>(async () => (await import('./logs/view')).Logs);

export interface BodyProps {
  state: PanelState;
  options: CanvasOptions;
  /** Outside JupyterLab, where the page's attributes do not tell. */
  isDark?: boolean;
}

export function Body({ state, options, isDark }: BodyProps) {
  const status = state.status.value;
  const connection = state.connection.value;
  watch(state.tick);
  useEffect(() => {
    const observer = new MutationObserver(() => {
      state.look.value++;
    });
    observer.observe(document.body, { attributeFilter: ['data-jp-theme-name', 'data-jp-theme-light', 'class'] });
    return () => observer.disconnect();
  }, [state]);
  const hasPicture =
    connection !== null && connection.hasPicture && (status === 'live' || status === 'lost' || status === 'connecting');
  return (
    <div class={`cm-panel cm-is-${status}${isDark ? ' cm-dark' : ''}${state.graph?.isStill ? ' cm-still' : ''}`}>
      {hasPicture ? <Live state={state} graph={state.graph!} options={options} /> : <Nothing state={state} />}
      <Spoken state={state} />
    </div>
  );
}

function Live({ state, graph, options }: BodyProps & { graph: TaskGraph }) {
  const isLost = state.status.value === 'lost';
  const id = useUniqueId();
  return (
    <>
      {isLost && (
        <div class="cm-banner" role="status">
          {__('No connection to the kernel. This is the last that was seen.')}
        </div>
      )}
      <Header state={state} graph={graph} />
      <div
        class="cm-stage"
        onKeyDown={event => {
          if (event.key === 'Escape' && state.selection.peek()) {
            event.stopPropagation();
            leaveCard(event.currentTarget);
            state.choose(null);
          }
        }}
      >
        <Tools state={state} id={id} />
        <div class="cm-view" id={id} role="tabpanel" aria-labelledby={`${id}-tab-${state.tab}`}>
          {state.view.value === 'graph' && <Graph state={state} graph={graph} options={options} />}
          {state.view.value === 'timeline' && <Timeline state={state} graph={graph} options={options} />}
          {state.view.value === 'tables' && <Tables state={state} graph={graph} options={options} />}
          {state.view.value === 'memory' && <Memory state={state} graph={graph} options={options} />}
          {state.view.value === 'machine' && <Machine state={state} graph={graph} options={options} />}
          {state.view.value === 'trials' && <Trials state={state} graph={graph} options={options} />}
          {state.view.value === 'learning' && <Learning state={state} graph={graph} options={options} />}
          {state.view.value === 'logs' && <Logs state={state} graph={graph} options={options} />}
        </div>
        <Card state={state} graph={graph} />
      </div>
      <HistoryBar state={state} graph={state.connection.value!.graph} />
      <Actors state={state} graph={graph} />
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
        <button type="button" class="cm-primary" onClick={() => void connection.load()}>
          {__('Load cellmesh')}
        </button>
      )}
      {state.status.value === 'failed' && connection && (
        <button type="button" class="cm-primary" onClick={() => void connection.start()}>
          {__('Try again')}
        </button>
      )}
      {state.status.value === 'live' && <pre class="cm-hint">{'%%remote\ntotal = sum(range(10_000_000))'}</pre>}
    </div>
  );
}
