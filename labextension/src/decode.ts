// From what arrives (JSON nobody has checked, and binary buffers of any kind) to typed messages. Everything behind this
// file may rely on the types.

import {
  type ActorLabel,
  type CellLabel,
  type Counts,
  type GraphHeader,
  type GraphMessage,
  type LogLine,
  type NodeLabel,
  type Loss,
  ProtocolError,
  Refusal,
  type ReplyContent,
  type Sample,
  type StoreMap,
  type StoredObject,
  type Transfer,
  VERSION,
  type WorkerLabel
} from './protocol';

type Json = Record<string, unknown>;
export type Buffer = ArrayBuffer | ArrayBufferView;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function object(value: unknown, what: string): Json {
  if (!isObject(value)) {
    throw new ProtocolError(`${what} is no object`);
  }
  return value;
}

function number(from: Json, key: string): number {
  const value = from[key];
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new ProtocolError(`${key} is no number`);
  }
  return value;
}

function count(from: Json, key: string): number {
  const value = number(from, key);
  if (!Number.isInteger(value) || value < 0) {
    throw new ProtocolError(`${key} is no count`);
  }
  return value;
}

function text(from: Json, key: string): string {
  const value = from[key];
  if (typeof value !== 'string') {
    throw new ProtocolError(`${key} is no text`);
  }
  return value;
}

function amounts(value: unknown, what: string): Record<string, number> {
  const from = object(value, what);
  return Object.fromEntries(Object.keys(from).map(key => [key, number(from, key)]));
}

function entries<T>(from: Json, key: string, decodeEntry: (value: unknown) => T): [number, T][] {
  return list(from[key], key).map(entry => {
    if (!Array.isArray(entry) || !Number.isInteger(entry[0])) {
      throw new ProtocolError(`${key} has an entry without an index`);
    }
    return [entry[0] as number, decodeEntry(entry[1])];
  });
}

function decodeFunction(value: unknown): string {
  return text({ function: value }, 'function');
}

function decodeCell(value: unknown): CellLabel {
  const from = object(value, 'cell');
  return { label: text(from, 'label'), id: text(from, 'id') };
}

function decodeActor(value: unknown): ActorLabel {
  const from = object(value, 'actor');
  return { name: text(from, 'name'), cls: text(from, 'cls'), state: text(from, 'state'), pid: number(from, 'pid'), crashed: from['crashed'] === true };
}

function decodeWorker(value: unknown): WorkerLabel {
  const from = object(value, 'worker');
  return {
    pid: number(from, 'pid'),
    state: text(from, 'state'),
    since: number(from, 'since'),
    ended: end(from, 'ended'),
    node: count(from, 'node')
  };
}

/** A time, null while it has not come. */
function end(from: Json, key: string): number {
  return from[key] === null ? Number.POSITIVE_INFINITY : number(from, key);
}

function decodeNode(value: unknown): NodeLabel {
  const from = object(value, 'node');
  return {
    name: text(from, 'name'),
    cpus: number(from, 'cpus'),
    gpus: number(from, 'gpus'),
    memory: count(from, 'memory'),
    store: count(from, 'store'),
    id: text(from, 'id'),
    state: text(from, 'state'),
    reason: text(from, 'reason'),
    since: number(from, 'since'),
    ended: end(from, 'ended')
  };
}

function decodeTransfer(value: unknown): Transfer {
  const [row, node, comes, bytes, began, ended, complete] = list(value, 'transfer');
  const from = { row, node, bytes, began, ended };
  return {
    row: number(from, 'row'),
    node: count(from, 'node'),
    comes: comes === true,
    size: count(from, 'bytes'),
    began: number(from, 'began'),
    ended: end(from, 'ended'),
    complete: complete === true
  };
}

function decodeLoss(value: unknown): Loss {
  const [row, worker, sent, began, lost] = list(value, 'loss');
  const from = { row, worker, sent, began, lost };
  return {
    row: number(from, 'row'),
    worker: count(from, 'worker'),
    sent: number(from, 'sent'),
    began: began === null ? Number.NaN : number(from, 'began'),
    lost: number(from, 'lost')
  };
}

const SAMPLE_FIELDS = ['node', 'at', 'load', 'cpus', 'gpus', 'memory', 'store', 'disk', 'queued'] as const;

function decodeSample(value: unknown): Sample {
  const fields = list(value, 'sample');
  return Object.fromEntries(SAMPLE_FIELDS.map((name, i) => [name, number({ [name]: fields[i] }, name)])) as unknown as Sample;
}

function list(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) {
    throw new ProtocolError(`${what} is no list`);
  }
  return value;
}

function texts(value: unknown, what: string): string[] {
  return list(value, what).map(each => text({ [what]: each }, what));
}

function decodeCounts(value: unknown): Counts {
  const from = object(value, 'counts');
  return {
    waiting: count(from, 'waiting'),
    ready: count(from, 'ready'),
    running: count(from, 'running'),
    finished: count(from, 'finished'),
    failed: count(from, 'failed'),
    cancelled: count(from, 'cancelled')
  };
}

function decodeHeader(data: unknown): GraphHeader {
  const from = object(data, 'message');
  const type = from['type'];
  if (type !== 'snapshot' && type !== 'delta') {
    throw new ProtocolError(`unknown message type ${String(type)}`);
  }
  if (from['v'] !== VERSION) {
    throw new ProtocolError(`the kernel speaks version ${String(from['v'])} of the panel protocol, this panel ${VERSION}`);
  }
  const resources = object(from['resources'], 'resources');
  const store = object(from['store'], 'store');
  return {
    type,
    n: count(from, 'n'),
    session: text(from, 'session'),
    now: number(from, 'now'),
    tasks: count(from, 'tasks'),
    aggregated: from['aggregated'] === undefined ? 0 : count(from, 'aggregated'),
    dropped: count(from, 'dropped'),
    behind: count(from, 'behind'),
    functions: entries(from, 'functions', decodeFunction),
    cells: entries(from, 'cells', decodeCell),
    actors: entries(from, 'actors', decodeActor),
    workers: entries(from, 'workers', decodeWorker),
    nodes: entries(from, 'nodes', decodeNode),
    samples: list(from['samples'], 'samples').map(decodeSample),
    transfers: entries(from, 'transfers', decodeTransfer),
    losses: list(from['losses'], 'losses').map(decodeLoss),
    lines: count(from, 'lines'),
    counts: decodeCounts(from['counts']),
    resources: { total: amounts(resources['total'], 'total'), available: amounts(resources['available'], 'available') },
    store: { used: count(store, 'used'), capacity: count(store, 'capacity'), objects: count(store, 'objects') },
    new: count(from, 'new'),
    updates: count(from, 'updates'),
    edges: count(from, 'edges'),
    away: count(from, 'away'),
    calls: count(from, 'calls')
  };
}

/** The bytes of a buffer, copied only where a typed array could not look at them in place. */
function bytes(buffer: Buffer | undefined, size: number, align: number, name: string): [ArrayBuffer, number] {
  if (buffer === undefined || buffer.byteLength !== size) {
    throw new ProtocolError(`buffer ${name} has ${buffer?.byteLength ?? 'no'} bytes, expected ${size}`);
  }
  if (buffer instanceof ArrayBuffer) {
    return [buffer, 0];
  }
  const memory = buffer.buffer as ArrayBuffer;
  return buffer.byteOffset % align === 0
    ? [memory, buffer.byteOffset]
    : [memory.slice(buffer.byteOffset, buffer.byteOffset + size), 0];
}

/**
 * A graph message from its JSON part and its buffers.
 *
 * Throws `ProtocolError` when anything is missing, of the wrong type, or a buffer's size is not what the header says.
 * Row numbers are checked by the model, which knows how many rows there are.
 */
export function decodeGraphMessage(data: unknown, buffers: readonly Buffer[]): GraphMessage {
  const header = decodeHeader(data);
  let next = 0;
  const u4 = (name: string, items: number) =>
    new Uint32Array(...bytes(buffers[next++], 4 * items, 4, name), items);
  const u2 = (name: string, items: number) => new Uint16Array(...bytes(buffers[next++], 2 * items, 2, name), items);
  const u1 = (name: string, items: number) => new Uint8Array(...bytes(buffers[next++], items, 1, name), items);
  const f8 = (name: string, items: number) =>
    new Float64Array(...bytes(buffers[next++], 8 * items, 8, name), items);
  return {
    header,
    arrays: {
      newU32: u4('new_u32', 5 * header.new),
      newSubmitted: f8('new_submitted', header.new),
      updateRow: u4('update_row', header.updates),
      updateState: u1('update_state', header.updates),
      updateWorker: u2('update_worker', header.updates),
      updateStarted: f8('update_started', header.updates),
      updateFinished: f8('update_finished', header.updates),
      updateSize: f8('update_size', header.updates),
      edges: u4('edges', 2 * header.edges),
      awayRow: u4('away_row', header.away),
      awayTimes: f8('away_times', 2 * header.away),
      calls: f8('calls', 2 * header.calls)
    }
  };
}

/** The lines of a reply to `logs`, and the number of the first. */
export function decodeLogs(reply: ReplyContent): { first: number; lines: LogLine[] } {
  const lines = list(reply['lines'], 'lines').map(each => {
    const [at, row, stream, pid, words] = list(each, 'line');
    const from = { at, row, stream, pid, words };
    return { at: number(from, 'at'), row: number(from, 'row'), stream: text(from, 'stream'), pid: number(from, 'pid'), text: text(from, 'words') };
  });
  return { first: count(reply, 'first'), lines };
}

/** A reply to `memory`. */
export function decodeStoreMap(reply: ReplyContent): StoreMap {
  const objects = list(reply['objects'], 'objects').map((each): StoredObject => {
    const [row, size, place, state, madeBy, holders, variables, users] = list(each, 'object');
    const from = { row, size, place, state, madeBy, users };
    return {
      row: number(from, 'row'),
      size: count(from, 'size'),
      place: text(from, 'place'),
      state: text(from, 'state'),
      madeBy: text(from, 'madeBy'),
      holders: texts(holders, 'holders'),
      variables: texts(variables, 'variables'),
      users: count(from, 'users')
    };
  });
  return {
    objects,
    nObjects: count(reply, 'n_objects'),
    used: count(reply, 'used'),
    capacity: count(reply, 'capacity'),
    peak: count(reply, 'peak'),
    disk: count(reply, 'disk'),
    nOnDisk: count(reply, 'n_on_disk')
  };
}

/** A reply's fields; throws `Refusal` when the kernel said no, `ProtocolError` when it is no reply. */
export function decodeReply(content: unknown): ReplyContent {
  const from = object(content, 'reply');
  if (from['status'] === 'ok') {
    return from;
  }
  if (from['status'] === 'error') {
    throw new Refusal(text(from, 'ename'), text(from, 'evalue'));
  }
  throw new ProtocolError('a reply without a status');
}
