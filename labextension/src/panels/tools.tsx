// The tabs that choose a view, and the buttons that move the graph's camera.

import { __ } from '../i18n/translate';
import { Choices } from './shared/choices';
import { Glyph } from './shared/icons';
import type { PanelState, Tab } from './shared/state';
import { watch } from './shared/watch';

/** A view's name and tooltip. */
export function tabInWords(tab: Tab, isClustered: boolean): { label: string; title: string } {
  switch (tab) {
    case 'groups':
      return { label: __('Groups'), title: __('One box for each cell and function (G)') };
    case 'machines':
      return { label: __('By machine'), title: __('One box for each cell and function on each machine') };
    case 'tasks':
      return { label: __('Tasks'), title: __('One box for each task (G)') };
    case 'timeline':
      return { label: __('Timeline'), title: __('When tasks ran, worker by worker') };
    case 'tables':
      return { label: __('Tables'), title: __('Tasks, objects, actors and workers, to sort and search') };
    case 'memory':
      return { label: __('Memory'), title: __('What holds the memory of the store, and who holds that') };
    case 'machine':
      return { label: isClustered ? __('Nodes') : __('Machine'), title: __('CPU, memory and store over time') };
    case 'logs':
      return { label: __('Logs'), title: __('What tasks have printed, to search') };
    case 'trials':
      return { label: __('Trials'), title: __('The trials of a search: table, curves and parameters') };
    case 'learning':
      return { label: __('Learning'), title: __('Runs of learning: return, losses and speed, compared') };
  }
}

export function Tools({ state, id }: { state: PanelState; id: string }) {
  const canvas = state.canvas.value;
  const view = state.view.value;
  watch(state.tick); // a session may become part of a cluster
  const isClustered = state.connection.value?.graph.isClustered ?? false;
  return (
    <>
      <Choices
        role="tablist"
        label={__('View')}
        class="cm-tabs"
        items={state.tabs.map(key => ({ key, glyph: key, ...tabInWords(key, isClustered) }))}
        chosen={state.tab}
        onChoose={key => state.showTab(key)}
        id={`${id}-tab`}
        panel={id}
      />
      {view === 'graph' && canvas && (
        <div class="cm-zoom" role="toolbar" aria-label={__('Point of view')}>
          <button
            type="button"
            aria-label={__('Zoom out')}
            title={__('Zoom out (−)')}
            onClick={() => canvas.zoom(1 / 1.5)}
          >
            <Glyph name="minus" />
          </button>
          <button type="button" aria-label={__('Zoom in')} title={__('Zoom in (+)')} onClick={() => canvas.zoom(1.5)}>
            <Glyph name="plus" />
          </button>
          <button
            type="button"
            aria-label={__('Show everything')}
            title={__('Show everything (F)')}
            onClick={() => canvas.fit()}
          >
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
