// Keeps the panel connected to the kernel of the notebook in front, through that notebook's own kernel connection: of
// several connections to one kernel in a page, only that one handles comms.

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Connection } from '../connection';
import type { PanelState } from '../panels/graph/state';
import { ANNOUNCE_TARGET } from '../protocol';
import { KernelTransport, forgetHello } from './kernel';

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

  /** The notebook that is followed, null while nobody watches. */
  get followed(): NotebookPanel | null {
    return this.isWatching ? this.notebook : null;
  }

  /** Nothing is asked of any kernel while nobody watches; what was shown stays for the next look. */
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
    before?.kernelChanged.disconnect(this.update, this);
    before?.statusChanged.disconnect(this.statusChanged, this);
    before?.connectionStatusChanged.disconnect(this.statusChanged, this);
    this.notebook = notebook;
    const now = notebook?.sessionContext;
    now?.kernelChanged.connect(this.update, this);
    now?.statusChanged.connect(this.statusChanged, this);
    now?.connectionStatusChanged.connect(this.statusChanged, this);
  }

  private connect(kernel: Kernel.IKernelConnection | null): void {
    this.connection?.dispose();
    this.kernel = kernel;
    this.connection = kernel && this.notebook ? new Connection(new KernelTransport(kernel, this.notebook, this.openFile)) : null;
    this.state.connect(this.connection);
    this.isLost = true; // so that it begins as soon as there is a way
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
          forgetHello(kernel); // what was asked may have been lost
        }
      });
      kernel.registerCommTarget(ANNOUNCE_TARGET, comm => {
        // It has said what it had to say; without this JupyterLab would start a subshell for its answers.
        comm.commsOverSubshells = 'disabled' as typeof comm.commsOverSubshells;
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
