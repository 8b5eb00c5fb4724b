// The panel's plugin for JupyterLab and Notebook 7: where the panel opens, and what opens it.

import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';
import { effect } from '@preact/signals';
import panelIcon from '../../style/panel.svg';
import { __, translateWith } from '../i18n/translate';
import type { Choice, PanelState } from '../panels/shared/state';
import { watch } from '../panels/shared/watch';
import { keepClear } from './area';
import { CellBadges } from './cell_badges';
import { addCommands } from './commands';
import { listenForAnnouncements, NotebookFollower } from './follow';
import { GraphPanel } from './graph_panel';

const ID = 'cellmesh-labextension:panel';
const WIDGET_ID = 'cellmesh-panel';
/** Key in the page's session storage: the kernel beside whose notebook the panel was open. */
const OPEN_KEY = 'cellmesh:panel';
/** Key in the page's session storage: what the panel showed. */
const CHOICE_KEY = 'cellmesh:choice';
export const OPEN_COMMAND = 'cellmesh:open-panel';

/** Keep what the reader has chosen to see through a reload of the page, until the returned function is called. */
function remember(state: PanelState): () => void {
  const before = sessionStorage.getItem(CHOICE_KEY);
  if (before) {
    state.before = JSON.parse(before) as Choice;
  }
  return effect(() => {
    watch(state.view, state.show, state.stateFilter, state.selection);
    if (state.connection.value && !state.before) {
      sessionStorage.setItem(CHOICE_KEY, JSON.stringify(state.choice));
    }
  });
}

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'The live task graph of cellmesh beside the notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator, ILabShell, ILayoutRestorer, ISettingRegistry, ICommandPalette, ILauncher],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    translator: ITranslator | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null
  ) => {
    translateWith(translator?.load('cellmesh') ?? null, translator?.languageCode);
    const icon = new LabIcon({ name: 'cellmesh:panel', svgstr: panelIcon });
    const tracker = new WidgetTracker<GraphPanel>({ namespace: 'cellmesh' });
    let panel: GraphPanel | null = null;
    let follower: NotebookFollower | null = null;
    let openAutomatically = true;

    const makePanel = (): GraphPanel => {
      const made = new GraphPanel();
      made.id = WIDGET_ID;
      made.title.label = __('Task graph');
      made.title.caption = __('The tasks, puts and actors of the notebook in front');
      made.title.icon = icon;
      made.title.closable = true;
      const following = (follower = new NotebookFollower(notebooks, made.state, path => {
        void app.commands.execute('docmanager:open', { path });
      }));
      const badges = new CellBadges(
        made.state,
        () => following.followed,
        () => open(true)
      );
      const forget = remember(made.state);
      made.onVisible = isVisible => {
        following.watching = isVisible;
        made.state.tick.value++;
      };
      made.disposed.connect(() => {
        badges.dispose();
        forget();
        following.dispose();
        panel = follower = null;
        sessionStorage.removeItem(OPEN_KEY);
      });
      void tracker.add(made);
      return made;
    };

    const open = (activate: boolean): GraphPanel => {
      panel ??= makePanel();
      const beside = notebooks.currentWidget;
      // Documents open as tabs beside the one used last, so a new notebook may lie on top of the panel.
      if (!panel.isAttached || (labShell && !panel.isVisible)) {
        if (labShell) {
          labShell.add(panel, 'main', { mode: 'split-right', activate: false, ...(beside ? { ref: beside.id } : {}) });
        } else {
          app.shell.add(panel, 'right');
        }
      }
      const kernelId = beside?.sessionContext.session?.kernel?.id;
      if (kernelId !== undefined) {
        sessionStorage.setItem(OPEN_KEY, kernelId);
      }
      if (!labShell) {
        // Notebook 7 keeps its sides folded; its shell can be asked to show one.
        (app.shell as JupyterFrontEnd.IShell & { expandRight?: (id: string) => void }).expandRight?.(WIDGET_ID);
      } else if (activate) {
        app.shell.activateById(WIDGET_ID);
      }
      return panel;
    };

    // A launcher puts the widget that a command returns in its own place, where it would lie on top of the notebook.
    const openFromLauncher = (shell: ILabShell): GraphPanel | null => {
      const [from, notebook] = [shell.currentWidget, notebooks.currentWidget];
      if (!notebook) {
        return open(true);
      }
      open(false);
      from?.close();
      app.shell.activateById(notebook.id);
      return null;
    };

    app.commands.addCommand(OPEN_COMMAND, {
      label: args => (args['toolbar'] ? '' : __('Task graph')),
      caption: __('Show the live task graph of this notebook (cellmesh)'),
      icon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            activate: { type: 'boolean', default: true, description: 'Whether to bring the panel to the front.' },
            fromLauncher: { type: 'boolean', default: false, description: 'Whether to close the launcher in front.' }
          }
        }
      },
      execute: args =>
        args['fromLauncher'] === true && labShell ? openFromLauncher(labShell) : open(args['activate'] !== false)
    });
    palette?.addItem({ command: OPEN_COMMAND, category: 'cellmesh' });
    addCommands(
      app,
      palette,
      () => open(true).state,
      () => panel?.state ?? null
    );
    launcher?.add({ command: OPEN_COMMAND, args: { fromLauncher: true }, category: 'Other', rank: 40 });
    void restorer?.restore(tracker, { command: OPEN_COMMAND, args: () => ({ activate: false }), name: () => 'panel' });

    // JupyterLab's server translates JupyterLab's own settings only; an extension translates the names of its settings
    // itself.
    settings?.transform(ID, {
      fetch: plugin => {
        plugin.schema.description = __('The live task graph beside the notebook');
        Object.assign(plugin.schema.properties!['openAutomatically']!, {
          title: __('Open the panel by itself'),
          description: __('Show the panel beside the notebook when a kernel loads cellmesh for the first time.')
        });
        return plugin;
      }
    });
    void settings?.load(ID).then(loaded => {
      const read = () => {
        openAutomatically = loaded.get('openAutomatically').composite !== false;
      };
      loaded.changed.connect(read);
      read();
    });

    // The panel opens by itself once for each kernel: a reader who closes it does not want it back after a restart.
    const opened = new Set<string>();
    listenForAnnouncements(notebooks, (notebook, kernel) => {
      if (openAutomatically && !opened.has(kernel.id) && notebook === notebooks.currentWidget) {
        opened.add(kernel.id);
        open(false);
      }
      follower?.announced(notebook);
    });

    if (labShell) {
      keepClear(labShell, notebooks, () => panel);
    }

    // After a reload JupyterLab restores the layout, but a panel that had just opened may be missing in it.
    void app.restored.then(() => {
      const reopen = () => {
        const kernelId = notebooks.currentWidget?.sessionContext.session?.kernel?.id;
        if (kernelId !== undefined && kernelId === sessionStorage.getItem(OPEN_KEY) && !panel) {
          open(false);
        }
      };
      const watch = () => {
        notebooks.currentWidget?.sessionContext.kernelChanged.connect(reopen); // twice is once
        reopen();
      };
      notebooks.currentChanged.connect(watch); // a notebook named by the address opens after the layout is back
      watch();
    });
  }
};
