// One panel's subscription to one kernel: is cellmesh there, open, follow, and ask again when something was lost.
//
// How messages travel is the transport's business: the control channel and a comm in JupyterLab, widget messages
// elsewhere. What they mean is the model's.

import { signal } from '@preact/signals';
import { type Buffer, decodeGraphMessage } from './decode';
import { TaskGraph } from './model';
import { NoAnswer, ProtocolError, Refusal, type ReplyContent, type Request, VERSION } from './protocol';
import { __, language } from './text';

/** Without an answer to `hello` after this time the kernel counts as one without cellmesh, which never answers. */
const HELLO_MS = 2000;
/**
 * An answer is waited for so long, unseen. After a reload in the middle of a cell JupyterLab may hold messages back for
 * three seconds, and a kernel that has just been started takes its time as well.
 */
const LATE_HELLO_MS = 10_000;
/** Other requests may make a worker compute something. */
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
  /** Load cellmesh into the kernel; rejects when that fails. Absent where nobody can. */
  load?(): Promise<void>;
  /** Show a cell of the notebook; absent where nobody can. */
  reveal?(cellId: string): void;
  /** Open a file that the kernel has written beside the notebook; absent where nobody can. */
  open?(path: string): void;
  /** There is no kernel: nothing moves on, nothing can be done. */
  readonly isRecording?: boolean;
}

const TAB_KEY = 'cellmesh-tab';
let tab = '';

/**
 * A name for this tab of the browser that lasts through a reload of the page, so that the kernel sends to the page as it
 * is now in place of the one before, which could not say goodbye. A tab that was duplicated gets a name of its own.
 */
export function tabId(): string {
  if (!tab) {
    const [navigation] = performance.getEntriesByType?.('navigation') ?? [];
    const isReloaded = (navigation as PerformanceNavigationTiming | undefined)?.type === 'reload';
    tab = (isReloaded && storage()?.getItem(TAB_KEY)) || randomId();
    storage()?.setItem(TAB_KEY, tab);
  }
  return tab;
}

/** The tab's storage; pages in a sandbox have none. */
function storage(): Storage | null {
  try {
    return globalThis.sessionStorage ?? null;
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
  /** Called after each message that changed the graph. */
  onChange: (() => void) | null = null;
  private unsubscribe: (() => void) | null = null;
  private expected = 0;
  private isResyncing = false;
  private nResyncs = 0;
  /** Which of several overlapping attempts to start counts. */
  private attempt = 0;
  private isDisposed = false;

  /** Of several connections of a page to one kernel each must have its own `commId`. */
  constructor(
    readonly transport: Transport,
    private readonly commId = tabId()
  ) {
    this.graph.isStill = transport.isRecording === true;
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
        this.fail(__('The cellmesh of the kernel (%1) and this panel do not understand each other. Install the same version for both.', String(hello['version'])));
        return;
      }
      if (!this.graph.n) {
        this.status.value = 'connecting'; // before the snapshot nobody can say that nothing has run
      }
      this.unsubscribe ??= this.transport.subscribe(this.commId, (data, buffers) => this.receive(data, buffers));
      this.isResyncing = true;
      await this.transport.request({ op: 'open', comm_id: this.commId }, HELLO_MS);
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

  /** The kernel does not know cellmesh: what was seen before was of another one. */
  private miss(): void {
    this.graph.clear();
    this.status.value = 'absent';
    this.onChange?.();
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

  /** The kernel has gone or the way to it is cut. What was subscribed to has gone with it. */
  lose(): void {
    this.attempt++;
    this.unsubscribe?.();
    this.unsubscribe = null;
    this.status.value = this.graph.n ? 'lost' : 'connecting';
  }

  /** Nobody watches: let nothing be sent. `start` goes on with a fresh snapshot. */
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
      // The kernel forgets the comm; nobody waits for the answer, and a kernel that has gone has forgotten it already.
      this.transport.request({ op: 'close', comm_id: this.commId }, HELLO_MS).catch(() => undefined);
    }
  }

  private receive(data: unknown, buffers: readonly Buffer[]): void {
    if (this.isDisposed) {
      return;
    }
    try {
      const decoded = decodeGraphMessage(data, buffers);
      const { type, n } = decoded.header;
      if (type === 'delta' && this.isResyncing) {
        return; // from before the snapshot that was asked for
      }
      if (type === 'delta' && n !== this.expected) {
        this.resync();
        return;
      }
      this.graph.apply(decoded, performance.now());
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
    this.transport.request({ op: 'resync', comm_id: this.commId }, HELLO_MS).catch(error => {
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
