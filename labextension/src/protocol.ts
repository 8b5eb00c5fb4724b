// Every message between the panel and the kernel, as `kernel_ext/panel_messages.py` defines them.
//
// The kernel sends a snapshot and then deltas with consecutive numbers: a JSON header and nine typed arrays. The panel
// sends requests on user action only, each answered by one reply. `protocol.schema.json` is exported by the Python side;
// a test compares it with this file.

export const VERSION = 1;
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
  ['update_worker', 'u1', 'updates'],
  ['update_started', '<f8', 'updates'],
  ['update_finished', '<f8', 'updates'],
  ['update_size', '<f8', 'updates'],
  ['edges', '<u4', '2 * edges']
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
  counts: Counts;
  resources: Resources;
  store: Store;
  new: number;
  updates: number;
  edges: number;
}

/** The arrays of one graph message, in the order of `BUFFERS`. */
export interface GraphArrays {
  newU32: Uint32Array;
  newSubmitted: Float64Array;
  updateRow: Uint32Array;
  updateState: Uint8Array;
  updateWorker: Uint8Array;
  updateStarted: Float64Array;
  updateFinished: Float64Array;
  updateSize: Float64Array;
  edges: Uint32Array;
}

export interface GraphMessage {
  header: GraphHeader;
  arrays: GraphArrays;
}

export type Request =
  | { op: 'hello' }
  | { op: 'open'; comm_id: string }
  | { op: 'close'; comm_id: string }
  | { op: 'resync'; comm_id: string }
  | { op: 'card'; row: number }
  | { op: 'cancel'; row: number; force: boolean }
  | { op: 'retry'; row: number }
  | { op: 'fetch'; row: number; name: string }
  | { op: 'stack'; row: number };

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
