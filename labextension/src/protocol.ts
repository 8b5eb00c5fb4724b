// Every message between the panel and the kernel, as `kernel_ext/panel_messages.py` defines them.
//
// The kernel sends a snapshot and then deltas with consecutive numbers: a JSON header and twelve typed arrays. The panel
// sends requests on user action only, each answered by one reply. `protocol.schema.json` is exported by the Python side;
// a test compares it with this file.

export const VERSION = 2;
export const COMM_TARGET = 'cellmesh';
export const ANNOUNCE_TARGET = 'cellmesh.announce';
export const REQUEST_TYPE = 'cellmesh_request';

/** A row's state. Put objects are born finished. */
export const State = {
  waiting: 0,
  ready: 1,
  running: 2,
  finished: 3,
  failed: 4,
  cancelled: 5,
  retrying: 6
} as const;
export type State = (typeof State)[keyof typeof State];
export const N_STATES = 7;

/** What a row is. */
export const Kind = { task: 0, actor_creation: 1, actor_call: 2, object: 3 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

export const NO_WORKER = 255;

/** The binary buffers of a graph message: name, item type, and the number of items in terms of the header's fields. */
export const BUFFERS = [
  ['new_u32', '<u4', '5 * new'],
  ['new_submitted', '<f8', 'new'],
  ['update_row', '<u4', 'updates'],
  ['update_state', 'u1', 'updates'],
  ['update_worker', '<u2', 'updates'],
  ['update_started', '<f8', 'updates'],
  ['update_finished', '<f8', 'updates'],
  ['update_size', '<f8', 'updates'],
  ['edges', '<u4', '2 * edges'],
  ['away_row', '<u4', 'away'],
  ['away_times', '<f8', '2 * away'],
  ['calls', '<f8', '2 * calls']
] as const;

/** One run of a cell: as the notebook shows it, and the notebook's id of that cell ('' if there is none). */
export interface CellLabel {
  label: string;
  id: string;
}

export interface ActorLabel {
  name: string;
  cls: string;
  state: string;
  /** Of the process that it lives in, or lived; 0 before. */
  pid: number;
  /** Its process came to an end that nobody asked for. */
  crashed: boolean;
}

export interface WorkerLabel {
  pid: number;
  state: string;
  /** Seconds since the session began; `ended` is Infinity while it lives. */
  since: number;
  ended: number;
  /** Its machine; 0 is the kernel's. Elsewhere pid 0 stands for tasks that were sent there and have not begun, as far as is known. */
  node: number;
}

/** A machine: what tasks may use of it together, and bytes of memory and of the store. */
export interface NodeLabel {
  name: string;
  cpus: number;
  gpus: number;
  memory: number;
  store: number;
  /** Of other machines than the kernel's: the number in the cluster, and 'alive', 'draining' or 'dead' and why. */
  id: string;
  state: string;
  reason: string;
  /** When it was seen first and last; `ended` is Infinity while it lives. */
  since: number;
  ended: number;
}

/** A value's bytes on their way between the kernel's machine and `node`; `ended` is Infinity while they travel, `row` -1 for a value without one. */
export interface Transfer {
  row: number;
  node: number;
  comes: boolean;
  size: number;
  began: number;
  ended: number;
  complete: boolean;
}

/** An attempt that was lost with its machine; `began` is NaN where nobody knows. */
export interface Loss {
  row: number;
  worker: number;
  sent: number;
  began: number;
  lost: number;
}

/** What a machine was doing at one time; `load` is a share of all processors, the sizes are bytes. */
export interface Sample {
  node: number;
  at: number;
  load: number;
  cpus: number;
  gpus: number;
  memory: number;
  store: number;
  disk: number;
  /** Tasks that waited for room. */
  queued: number;
}

/** Tasks by state; retrying ones count as ready, and puts are no tasks. */
export interface Counts {
  waiting: number;
  ready: number;
  running: number;
  finished: number;
  failed: number;
  cancelled: number;
}

export interface Resources {
  total: Record<string, number>;
  available: Record<string, number>;
}

/** The node's shared memory, in bytes. */
export interface Store {
  used: number;
  capacity: number;
  objects: number;
}

/** What snapshots and deltas have in common. Times are seconds since the session began. */
export interface GraphHeader {
  type: 'snapshot' | 'delta';
  n: number;
  session: string;
  now: number;
  /** Every task there ever was; `aggregated` of them have no row. */
  tasks: number;
  aggregated: number;
  /** Events that were overwritten before they could be read. */
  dropped: number;
  /** Rows, updates and edges that wait for their turn. */
  behind: number;
  functions: [number, string][];
  cells: [number, CellLabel][];
  actors: [number, ActorLabel][];
  workers: [number, WorkerLabel][];
  nodes: [number, NodeLabel][];
  samples: Sample[];
  transfers: [number, Transfer][];
  losses: Loss[];
  /** How many lines tasks have printed. */
  lines: number;
  counts: Counts;
  resources: Resources;
  store: Store;
  new: number;
  updates: number;
  edges: number;
  away: number;
  calls: number;
}

/** The arrays of one graph message, in the order of `BUFFERS`. */
export interface GraphArrays {
  newU32: Uint32Array;
  newSubmitted: Float64Array;
  updateRow: Uint32Array;
  updateState: Uint8Array;
  updateWorker: Uint16Array;
  updateStarted: Float64Array;
  updateFinished: Float64Array;
  updateSize: Float64Array;
  edges: Uint32Array;
  awayRow: Uint32Array;
  awayTimes: Float64Array;
  /** Pairs (row, when the user's code began), of those whose arguments took long. */
  calls: Float64Array;
}

export interface GraphMessage {
  header: GraphHeader;
  arrays: GraphArrays;
}

export type Request =
  | { op: 'hello'; language: string }
  | { op: 'open'; comm_id: string }
  | { op: 'close'; comm_id: string }
  | { op: 'resync'; comm_id: string }
  | { op: 'card'; row: number }
  | { op: 'cancel'; row: number; force: boolean }
  | { op: 'retry'; row: number }
  | { op: 'fetch'; row: number; name: string }
  | { op: 'stack'; row: number }
  | { op: 'logs'; after: number }
  | { op: 'memory' }
  | { op: 'save'; path: string };

/** A line that a task has printed; `row` is -1 where nobody knows which task it was. */
export interface LogLine {
  at: number;
  row: number;
  stream: string;
  pid: number;
  text: string;
}

/** A value of the store, and who holds it. */
export interface StoredObject {
  row: number;
  size: number;
  place: string;
  state: string;
  madeBy: string;
  holders: string[];
  variables: string[];
  users: number;
}

export interface StoreMap {
  objects: StoredObject[];
  nObjects: number;
  used: number;
  capacity: number;
  peak: number;
  disk: number;
  nOnDisk: number;
}

/** A successful reply's fields; which ones depends on the request, so they are narrowed where they are used. */
export type ReplyContent = Record<string, unknown>;

/** The kernel could not do what was asked; `message` is a sentence for people. */
export class Refusal extends Error {
  constructor(
    readonly ename: string,
    evalue: string
  ) {
    super(evalue);
    this.name = 'Refusal';
  }
}

/** Nobody answered in time. */
export class NoAnswer extends Error {
  override name = 'NoAnswer';
}

/** A message that is not what the protocol says. */
export class ProtocolError extends Error {
  override name = 'ProtocolError';
}
