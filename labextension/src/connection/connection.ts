// connection/: what one panel asks of one kernel and is told; never a transport, which `lab/`, `entry/` and
// `recording/` bring.

// One panel's subscription to one kernel: it says hello, opens, follows the messages and asks for a new snapshot when
// one is lost.
//
// A transport carries the messages: the control channel and a comm in JupyterLab, widget messages in a cell. The model
// interprets them.

import { signal } from '@preact/signals';
import { __, language } from '../i18n/translate';
import { apply, clear } from '../model/apply';
import { TaskGraph } from '../model/graph';
import type { Buffer } from '../protocol/check';
import { decodeGraphMessage, type ReplyContent } from '../protocol/decode';
import { NoAnswer, ProtocolError, Refusal } from '../protocol/errors';
import { type Request, VERSION } from '../protocol/messages';
import { LearningLink } from './learning';
import { TrialsLink } from './trials';

/** Without an answer to `hello` after this time the kernel counts as one without cellmesh, which never answers. */
const HELLO_MS = 2000;
/**
 * The panel waits this long for an answer without saying so. After a reload in the middle of a cell JupyterLab may hold
 * messages back for three seconds, and a kernel that has just started is slow as well.
 */
const LATE_HELLO_MS = 10_000;
/** Other requests may make a worker compute something, so they may take longer. */
const REQUEST_MS = 30_000;
/** Unreadable snapshots in a row before giving up. */
const N_RESYNCS_MAX = 3;

export type Status =
  /** No notebook, or none with a kernel. */
  | 'none'
  | 'connecting'
  /** A kernel that does not know cellmesh. */
  | 'absent'
  | 'live'
  /** The kernel has gone, or the way to it; the last picture stays. */
  | 'lost'
  /** `problem` says what is wrong. */
  | 'failed';

export interface Transport {
  /** What the reader knows the other side by: the notebook's name. */
  readonly label: string;
  /** Rejects with `Refusal` when the kernel says no, with `NoAnswer` when it says nothing in time. */
  request(request: Request, timeoutMs: number): Promise<ReplyContent>;
  /** Hand over what arrives for this comm; returns how to stop that. */
  subscribe(commId: string, receive: (data: unknown, buffers: readonly Buffer[]) => void): () => void;
  /** Load cellmesh into the kernel; rejects when that fails. Absent where that is impossible. */
  load?(): Promise<void>;
  /** Show a cell of the notebook; absent where that is impossible. */
  reveal?(cellId: string): void;
  /** Open a file that the kernel has written beside the notebook; absent where that is impossible. */
  open?(path: string): void;
  /** There is no kernel: nothing changes any more, and no action is possible. */
  readonly isRecording?: boolean;
}

const TAB_KEY = 'cellmesh-tab';
let tab = '';

/**
 * A name for this tab of the browser that survives a reload of the page. The kernel then sends to the reloaded page
 * instead of the earlier one, which could not say goodbye. A duplicated tab gets a name of its own.
 */
export function tabId(): string {
  if (!tab) {
    const [navigation] = performance.getEntriesByType('navigation');
    const isReloaded = (navigation as PerformanceNavigationTiming | undefined)?.type === 'reload';
    tab = (isReloaded && storage()?.getItem(TAB_KEY)) || randomId();
    storage()?.setItem(TAB_KEY, tab);
  }
  return tab;
}

/** The tab's storage; pages in a sandbox have none. */
function storage(): Storage | null {
  try {
    return (globalThis as Partial<Pick<typeof globalThis, 'sessionStorage'>>).sessionStorage ?? null;
  } catch {
    return null;
  }
}

function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('');
}

export class Connection {
  readonly status = signal<Status>('connecting');
  readonly problem = signal('');
  readonly graph = new TaskGraph();
  readonly trials: TrialsLink;
  readonly learning: LearningLink;
  /** Called after each message that changed the graph. */
  onChange: (() => void) | null = null;
  private unsubscribe: (() => void) | null = null;
  private expected = 0;
  private isResyncing = false;
  private nResyncs = 0;
  /** Which of several overlapping attempts to start counts. */
  private attempt = 0;
  private isDisposed = false;

  /** Several connections of a page to one kernel must have different `commId`s. */
  constructor(
    readonly transport: Transport,
    private readonly commId = tabId()
  ) {
    this.graph.isStill = transport.isRecording === true;
    this.trials = new TrialsLink(commId, request => this.ask(request));
    this.learning = new LearningLink(commId, request => this.ask(request));
  }

  /** Say hello and open the subscription; may be called again at any time (the kernel has restarted, was announced). */
  async start(): Promise<void> {
    const attempt = ++this.attempt;
    const isCurrent = () => attempt === this.attempt && !this.isDisposed;
    if (this.status.value !== 'lost' && this.status.value !== 'live') {
      this.status.value = 'connecting';
    }
    try {
      const hello = await this.hello(isCurrent);
      if (!isCurrent()) {
        return;
      }
      if (hello['protocol'] !== undefined && hello['protocol'] !== VERSION) {
        this.fail(
          __(
            'The cellmesh of the kernel (%1) and this panel do not understand each other. Install the same version for both.',
            String(hello['version'])
          )
        );
        return;
      }
      if (!this.graph.n) {
        this.status.value = 'connecting'; // only the snapshot can say that nothing has run
      }
      this.unsubscribe ??= this.transport.subscribe(this.commId, (data, buffers) => this.receive(data, buffers));
      this.isResyncing = true;
      await this.transport.request({ op: 'open', comm_id: this.commId }, HELLO_MS);
      this.trials.renew();
      this.learning.renew();
    } catch (error) {
      if (!isCurrent()) {
        return;
      }
      if (error instanceof NoAnswer) {
        this.miss();
      } else {
        this.fail(message(error));
      }
    }
  }

  private async hello(isCurrent: () => boolean): Promise<ReplyContent> {
    const timer = setTimeout(() => {
      if (isCurrent()) {
        this.miss();
      }
    }, HELLO_MS);
    try {
      return await this.transport.request({ op: 'hello', language: language() }, LATE_HELLO_MS);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The kernel does not know cellmesh: an earlier picture belongs to another kernel. */
  private miss(): void {
    clear(this.graph);
    this.trials.clear();
    this.learning.clear();
    this.status.value = 'absent';
    this.onChange?.();
  }

  /** Whether there is anything to show: tasks, experiments, or runs of learning. */
  get hasPicture(): boolean {
    return this.graph.n > 0 || this.trials.experiments.length > 0 || this.learning.runs.labels.length > 0;
  }

  /** Load cellmesh into the kernel, then begin again. */
  async load(): Promise<void> {
    this.attempt++;
    this.status.value = 'connecting';
    try {
      await this.transport.load?.();
    } catch (error) {
      this.fail(message(error));
      return;
    }
    await this.start();
  }

  /** The kernel has ended or cannot be reached. The subscription has ended with it. */
  lose(): void {
    this.attempt++;
    this.unsubscribe?.();
    this.unsubscribe = null;
    this.status.value = this.hasPicture ? 'lost' : 'connecting';
  }

  /** The panel is hidden: have the kernel send nothing. `start` continues with a fresh snapshot. */
  pause(): void {
    this.attempt++;
    this.close();
  }

  /** Ask something about a row. */
  ask(request: Request): Promise<ReplyContent> {
    return this.transport.request(request, REQUEST_MS);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.close();
    this.onChange = null;
  }

  private close(): void {
    if (this.unsubscribe) {
      this.unsubscribe();
      this.unsubscribe = null;
      // The answer does not matter, and a kernel that has ended has forgotten the comm already.
      this.transport.request({ op: 'close', comm_id: this.commId }, HELLO_MS).catch(() => undefined);
    }
  }

  private receive(data: unknown, buffers: readonly Buffer[]): void {
    if (this.isDisposed) {
      return;
    }
    try {
      if (this.trials.receive(data, buffers) || this.learning.receive(data, buffers)) {
        this.onChange?.();
        return;
      }
      const decoded = decodeGraphMessage(data, buffers);
      const { type, n } = decoded.header;
      if (type === 'delta' && this.isResyncing) {
        return; // from before the snapshot that was asked for
      }
      if (type === 'delta' && n !== this.expected) {
        this.resync();
        return;
      }
      apply(this.graph, decoded, performance.now());
      this.expected = n + 1;
      this.isResyncing = false;
      this.nResyncs = 0;
      this.status.value = 'live';
      this.onChange?.();
    } catch (error) {
      if (!(error instanceof ProtocolError)) {
        throw error;
      }
      if (this.nResyncs < N_RESYNCS_MAX) {
        this.resync();
      } else {
        this.fail(error.message);
      }
    }
  }

  private resync(): void {
    this.isResyncing = true;
    this.nResyncs++;
    this.transport.request({ op: 'resync', comm_id: this.commId }, HELLO_MS).catch((error: unknown) => {
      if (!this.isDisposed) {
        this.fail(message(error));
      }
    });
  }

  private fail(problem: string): void {
    this.problem.value = problem;
    this.status.value = 'failed';
  }
}

/** An error in words for people. */
export function message(error: unknown): string {
  if (error instanceof Refusal || error instanceof NoAnswer || error instanceof ProtocolError) {
    return error.message;
  }
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
