// lab/: JupyterLab's plumbing; never a view, which is in `panels/`.

// Keeps notebooks off the panel. JupyterLab opens a document as a tab beside the widget used last; if that was the
// panel, the notebook would cover it. Such a notebook is moved to the other notebooks, or beside the panel if there are
// none.

import type { ILabShell } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';

/** Keep notebooks that open from now on off the panel's area. */
export function keepClear(shell: ILabShell, notebooks: INotebookTracker, panel: () => Widget | null): void {
  const unseen = new Set<NotebookPanel>();
  const look = () => {
    for (const notebook of unseen) {
      if (notebook.isDisposed || notebook.isVisible) {
        unseen.delete(notebook);
        const covered = panel();
        if (notebook.isVisible && covered?.isAttached && !covered.isVisible) {
          clear(notebook, covered);
        }
      }
    }
  };
  const clear = (notebook: NotebookPanel, covered: Widget) => {
    const other = lastBut(notebooks, notebook);
    shell.add(
      notebook,
      'main',
      other
        ? { mode: 'tab-after', ref: other.id, activate: true }
        : { mode: 'split-left', ref: covered.id, activate: true }
    );
  };
  notebooks.widgetAdded.connect((_, notebook) => unseen.add(notebook));
  shell.layoutModified.connect(look); // emitted when the shell has finished its changes
}

function lastBut(notebooks: INotebookTracker, except: Widget): NotebookPanel | null {
  let last: NotebookPanel | null = null;
  notebooks.forEach(notebook => {
    last = notebook !== except && notebook.isAttached ? notebook : last;
  });
  return last;
}
