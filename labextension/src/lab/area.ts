// JupyterLab opens a document as a tab beside what was used last. Was that the panel, the notebook would lie on top of it:
// it goes to the other notebooks, or beside the panel when there are none.

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
    shell.add(notebook, 'main', other
      ? { mode: 'tab-after', ref: other.id, activate: true }
      : { mode: 'split-left', ref: covered.id, activate: true });
  };
  notebooks.widgetAdded.connect((_, notebook) => unseen.add(notebook));
  shell.layoutModified.connect(look); // comes when the shell has finished what it was doing
}

function lastBut(notebooks: INotebookTracker, except: Widget): NotebookPanel | null {
  let last: NotebookPanel | null = null;
  notebooks.forEach(notebook => {
    last = notebook !== except && notebook.isAttached ? notebook : last;
  });
  return last;
}
