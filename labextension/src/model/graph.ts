// The task graph as the panel knows it: rows and edges, the labels that their numbers refer to, and the latest header.
//
// It knows no DOM and reads no clock. A snapshot starts a new epoch, deltas extend it (`apply.ts`). Layout and drawing
// read the columns and catch up at their own pace.

import { __ } from '../i18n/translate';
import {
  type ActorLabel,
  type CellLabel,
  type Collective,
  type Counts,
  Kind,
  type Loss,
  NO_WORKER,
  type NodeLabel,
  PUT_NAMES,
  type Resources,
  type Sample,
  type Store,
  type Transfer,
  UNKNOWN,
  type WorkerLabel
} from '../protocol/messages';
import { Groups } from './groups';
import { Rates } from './rates';
import { Rows } from './rows';

export interface ActorCalls {
  /** Rows: the creation if it is known, and the latest call. */
  first: number;
  last: number;
  n: number;
  ended: number;
}

export function noCounts(): Counts {
  return { waiting: 0, queued: 0, running: 0, finished: 0, failed: 0, cancelled: 0 };
}

export class TaskGraph extends Rows {
  /** Changes with each snapshot: code that caught up with an older epoch starts again. */
  epoch = 0;
  /** Changes with each message. */
  version = 0;
  /** Whether there is more than one machine. */
  isClustered = false;
  /** Whether each group holds the rows of one machine. */
  byMachine = false;

  groups = new Groups();
  functions = new Map<number, string>();
  cells = new Map<number, CellLabel>();
  actors = new Map<number, ActorLabel>();
  workers = new Map<number, WorkerLabel>();
  nodes = new Map<number, NodeLabel>();
  /** The machines' load, by time. */
  samples: Sample[] = [];
  /** Values that travelled between this machine and others, in the order of their departure. */
  transfers: Transfer[] = [];
  /** Attempts that were lost with their machines. */
  losses: Loss[] = [];
  /** Collectives of ranks, by number; kept by the kernel while a front end looks. */
  readonly collectives = new Map<number, Collective>();
  /** How many lines tasks have printed. */
  lines = 0;
  /** The error of each failed row, in a line. */
  readonly errors = new Map<number, string>();
  /** The calls of each actor, by actor index. */
  readonly calls = new Map<number, ActorCalls>();

  // ---- the latest header
  session = '';
  /** Time stands still: this is a recording, or a moment of the past. */
  isStill = false;
  now = 0;
  /** The caller's clock when `now` was true, milliseconds. */
  receivedAt = 0;
  tasks = 0;
  aggregated = 0;
  dropped = 0;
  behind = 0;
  counts: Counts = noCounts();
  resources: Resources = { total: {}, available: {} };
  store: Store = { used: 0, capacity: 0, objects: 0 };
  readonly rates = new Rates();

  /** The session's clock at this moment of the caller's clock. */
  time(clockMs: number): number {
    if (this.isStill) {
      return this.now;
    }
    return this.n || this.session ? this.now + Math.max(0, clockMs - this.receivedAt) / 1000 : 0;
  }

  /** A machine's load at a time; for this machine the present load if nothing was recorded. */
  resourcesAt(at: number): Sample;
  resourcesAt(at: number, node: number): Sample | undefined;
  resourcesAt(at: number, node = 0): Sample | undefined {
    let [low, high] = [0, this.samples.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.samples[middle]!.at <= at) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const isHere = (sample?: Sample) => sample?.node === node;
    while (low > 1 && !isHere(this.samples[low - 1])) {
      low--;
    }
    const found = isHere(this.samples[low - 1]) ? this.samples[low - 1] : this.samples.find(isHere);
    if (found || node) {
      return found;
    }
    const { total, available } = this.resources;
    return {
      node: 0,
      at,
      load: 0,
      cpus: (total['CPU'] ?? 0) - (available['CPU'] ?? 0),
      gpus: 0,
      memory: 0,
      store: this.store.used,
      disk: 0,
      queued: 0
    };
  }

  name(row: number): string {
    return this.nameOf(this.kind[row]!, this.fn[row]!);
  }

  /** The name of a task or an object. */
  nameOf(kind: number, fn: number): string {
    return kind === Kind.object ? objectName(this.functions.get(fn)) : this.functionName(fn);
  }

  /** A function's name. */
  functionName(fn: number): string {
    const name = this.functions.get(fn) ?? UNKNOWN;
    return name === UNKNOWN ? __('unknown') : name;
  }

  cellLabel(row: number): CellLabel | undefined {
    return this.cells.get(this.cell[row]!);
  }

  /** The machine that a row ran on or was sent to; 0, the kernel's, if none. */
  nodeOf(row: number): number {
    const worker = this.worker[row]!;
    return worker <= NO_WORKER ? 0 : (this.workers.get(worker)?.node ?? 0);
  }

  nodeName(node: number): string {
    return this.nodes.get(node)?.name ?? (node ? __('machine %1', node) : __('this machine'));
  }

  /** All workers have smaller numbers. */
  get workerLimit(): number {
    return Math.max(NO_WORKER, ...this.workers.keys()) + 1;
  }
}

/** Objects are named by how they were made, in the kernel's words. */
function objectName(made: string | undefined): string {
  switch (PUT_NAMES.find(name => name === made)) {
    case 'argument':
      return __('argument');
    case 'item':
      return __('item');
    case 'put':
    case undefined:
      return __('put');
  }
}
