// Keeps the panel connected to the kernel of the notebook in front, through that notebook's own kernel connection: a
// page may have several connections to one kernel, and only that one handles comms.

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { CommsOverSubshells, type Kernel } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Connection } from '../connection/connection';
import type { PanelState } from '../panels/shared/state';
import { ANNOUNCE_TARGET } from '../protocol/messages';
import { forgetHello, KernelTransport } from './kernel';

/** A kernel in these states has forgotten its subscriptions. */
const GONE: readonly Kernel.Status[] = ['restarting', 'autorestarting', 'terminating', 'dead'];

export class NotebookFollower {
  private notebook: NotebookPanel | null = null;
  private kernel: Kernel.IKernelConnection | null = null;
  private connection: Connection | null = null;
  private isLost = false;
  private isWatching = false;
  private readonly unbind: () => void;

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly state: PanelState,
    private readonly openFile: (path: string) => void
  ) {
    tracker.currentChanged.connect(this.update, this);
    state.isPinned.value = false;
    this.unbind = state.isPinned.subscribe(isPinned => {
      if (!isPinned) {
        this.update();
      }
    });
  }

  /** The followed notebook, null while the panel is hidden. */
  get followed(): NotebookPanel | null {
    return this.isWatching ? this.notebook : null;
  }

  /** While the panel is hidden no kernel is asked anything, and the last picture stays. */
  set watching(isWatching: boolean) {
    if (isWatching === this.isWatching) {
      return;
    }
    this.isWatching = isWatching;
    if (!isWatching) {
      this.connection?.pause();
      return;
    }
    const before = this.connection;
    this.update();
    if (before && before === this.connection) {
      void before.start();
    }
  }

  /** The kernel of this notebook says that cellmesh is there now. */
  announced(notebook: NotebookPanel): void {
    if (notebook === this.notebook && this.connection && this.isWatching) {
      void this.connection.start();
    }
  }

  dispose(): void {
    this.tracker.currentChanged.disconnect(this.update, this);
    this.unbind();
    this.watch(null);
    this.connect(null);
  }

  private update(): void {
    if (!this.isWatching) {
      return;
    }
    if (this.notebook?.isDisposed) {
      this.state.isPinned.value = false;
    }
    const notebook = this.state.isPinned.peek() && this.notebook ? this.notebook : this.tracker.currentWidget;
    if (notebook !== this.notebook) {
      this.watch(notebook);
    }
    const kernel = notebook?.sessionContext.session?.kernel ?? null;
    if (kernel !== this.kernel) {
      this.connect(kernel);
    }
  }

  private watch(notebook: NotebookPanel | null): void {
    const before = this.notebook?.isDisposed ? undefined : this.notebook?.sessionContext;
    if (before) {
      this.notebook?.title.changed.disconnect(this.renamed, this);
    }
    before?.kernelChanged.disconnect(this.update, this);
    before?.statusChanged.disconnect(this.statusChanged, this);
    before?.connectionStatusChanged.disconnect(this.statusChanged, this);
    this.notebook = notebook;
    const now = notebook?.sessionContext;
    notebook?.title.changed.connect(this.renamed, this);
    now?.kernelChanged.connect(this.update, this);
    now?.statusChanged.connect(this.statusChanged, this);
    now?.connectionStatusChanged.connect(this.statusChanged, this);
  }

  private renamed(): void {
    this.state.tick.value++;
  }

  private connect(kernel: Kernel.IKernelConnection | null): void {
    this.connection?.dispose();
    this.kernel = kernel;
    this.connection =
      kernel && this.notebook ? new Connection(new KernelTransport(kernel, this.notebook, this.openFile)) : null;
    this.state.connect(this.connection);
    this.isLost = true; // so that it starts as soon as the kernel can be reached
    this.statusChanged();
  }

  private statusChanged(): void {
    const { kernel, connection } = this;
    if (!kernel || !connection || kernel.isDisposed) {
      return;
    }
    const isThere = kernel.connectionStatus === 'connected' && !GONE.includes(kernel.status);
    if (!isThere && !this.isLost) {
      connection.lose();
    } else if (isThere && this.isLost && this.isWatching) {
      void connection.start();
    }
    this.isLost = !isThere;
  }
}

/** Call `announced` whenever a kernel of an open notebook says that cellmesh has been loaded. */
export function listenForAnnouncements(
  tracker: INotebookTracker,
  announced: (notebook: NotebookPanel, kernel: Kernel.IKernelConnection) => void
): void {
  const listening = new WeakSet<Kernel.IKernelConnection>();
  const listen = (notebook: NotebookPanel) => {
    const kernel = notebook.sessionContext.session?.kernel;
    if (kernel && !listening.has(kernel)) {
      listening.add(kernel);
      kernel.statusChanged.connect((_, status) => {
        if (GONE.includes(status)) {
          forgetHello(kernel);
        }
      });
      kernel.connectionStatusChanged.connect(() => {
        if (kernel.connectionStatus !== 'connected') {
          forgetHello(kernel); // the question may have been lost
        }
      });
      kernel.registerCommTarget(ANNOUNCE_TARGET, comm => {
        // The comm is the message; without this JupyterLab would start a subshell for answers.
        comm.commsOverSubshells = CommsOverSubshells.Disabled;
        comm.dispose();
        forgetHello(kernel);
        announced(notebook, kernel);
      });
    }
  };
  const added = (_: unknown, notebook: NotebookPanel) => {
    const changed: ISignal<unknown, unknown> = notebook.sessionContext.kernelChanged;
    changed.connect(() => listen(notebook));
    listen(notebook);
  };
  tracker.widgetAdded.connect(added);
  tracker.forEach(notebook => added(null, notebook));
}
