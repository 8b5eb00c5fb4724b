// The commands of the palette beside opening the panel. Users may give them keys; none has a key by default, because
// any key may belong to another extension.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import { __ } from '../i18n/translate';
import { isEnded } from '../model/rows';
import { type PanelState, type Tab, TABS } from '../panels/shared/state';
import { tabInWords } from '../panels/tools';
import { Kind, State } from '../protocol/messages';

const CATEGORY = 'cellmesh';

/** The chosen row of a session whose kernel can still act, or -1. */
function chosenRow(state: PanelState | null): number {
  const connection = state?.connection.peek();
  const picked = state?.selection.peek();
  const isLive = connection && !connection.transport.isRecording && state!.moment.peek() === null;
  return isLive && picked?.kind === 'task' && picked.index < connection.graph.n ? picked.index : -1;
}

function canCancel(state: PanelState | null): boolean {
  const row = chosenRow(state);
  const graph = state?.connection.peek()?.graph;
  return row >= 0 && graph!.kind[row] !== Kind.object && !isEnded(graph!.state[row]!);
}

function canRetry(state: PanelState | null): boolean {
  const row = chosenRow(state);
  const graph = state?.connection.peek()?.graph;
  return (
    row >= 0 &&
    graph!.kind[row] === Kind.task &&
    (graph!.state[row] === State.failed || graph!.state[row] === State.cancelled)
  );
}

/** `open` shows the panel; `state` returns the state of the panel, if there is one. */
export function addCommands(
  app: JupyterFrontEnd,
  palette: ICommandPalette | null,
  open: () => PanelState,
  state: () => PanelState | null
): void {
  const none = { args: { type: 'object', properties: {} } };
  const isClustered = () => state()?.connection.peek()?.graph.isClustered ?? false;
  const hasPicture = () => (state()?.connection.peek()?.graph.n ?? 0) > 0;

  app.commands.addCommand('cellmesh:show-view', {
    label: ({ view }) =>
      isTab(view) ? __('Task graph: %1', tabInWords(view, isClustered()).label) : __('Task graph: show a view'),
    caption: __('Show this view in the panel of the task graph'),
    isEnabled: ({ view }) => view !== 'machines' || isClustered(),
    isToggled: ({ view }) => hasPicture() && state()!.tab === view,
    describedBy: {
      args: {
        type: 'object',
        required: ['view'],
        properties: { view: { type: 'string', enum: [...TABS], description: 'The view.' } }
      }
    },
    execute: ({ view }) => {
      if (!isTab(view)) {
        throw new Error(`cellmesh:show-view: view must be one of ${TABS.join(', ')}; it is ${JSON.stringify(view)}`);
      }
      open().showTab(view);
    }
  });
  for (const view of TABS) {
    palette?.addItem({ command: 'cellmesh:show-view', category: CATEGORY, args: { view } });
  }

  const add = (
    name: string,
    label: string,
    caption: string,
    execute: () => unknown,
    isEnabled: () => boolean,
    isToggled?: () => boolean
  ) => {
    const command = `cellmesh:${name}`;
    app.commands.addCommand(command, {
      label,
      caption,
      execute,
      isEnabled,
      describedBy: none,
      ...(isToggled && { isToggled })
    });
    palette?.addItem({ command, category: CATEGORY });
  };
  add(
    'search',
    __('Task graph: search tasks …'),
    __('Lead to the search of the table of tasks, or of the logs while these are shown'),
    () => open().search(),
    hasPicture
  );
  add(
    'fit',
    __('Task graph: show everything'),
    __('Have the whole task graph fit into the panel'),
    () => show(open(), 'fit'),
    hasPicture
  );
  add(
    'follow',
    __('Task graph: follow the work'),
    __('Keep the newest tasks of the graph in view'),
    () => show(open(), 'follow'),
    hasPicture,
    () => hasPicture() && state()!.isFollowing.peek()
  );
  add(
    'save-recording',
    __('Task graph: save the session …'),
    __('Save what the panel shows, to open it later without a kernel'),
    () => {
      open().isNaming.value = true;
    },
    () => hasPicture() && !state()!.connection.peek()?.transport.isRecording
  );
  add(
    'cancel-task',
    __('Task graph: cancel the chosen task'),
    __('Cancel the task that is chosen in the panel'),
    () => state()!.cancel(chosenRow(state()), false),
    () => canCancel(state())
  );
  add(
    'retry-task',
    __('Task graph: retry the chosen task'),
    __('Submit the task that is chosen in the panel again'),
    () => state()!.retry(chosenRow(state())),
    () => canRetry(state())
  );
  add(
    'pin',
    __('Task graph: stay with this notebook'),
    __('Have the panel stay with its notebook, whichever is in front'),
    () => {
      const shown = open();
      shown.isPinned.value = !shown.isPinned.peek();
    },
    hasPicture,
    () => hasPicture() && state()!.isPinned.peek() === true
  );
}

function isTab(view: unknown): view is Tab {
  return TABS.includes(view as Tab);
}

/** The picture exists once its view is open. */
function show(state: PanelState, what: 'fit' | 'follow'): void {
  if (state.view.peek() !== 'graph') {
    state.showTab('tasks');
  }
  state.whenDrawn(canvas => (what === 'fit' ? canvas.fit() : canvas.follow(true)));
}
