// From what arrives (JSON nobody has checked, and binary buffers of any kind) to typed messages. Everything behind this
// file may rely on the types.

import {
  type ActorLabel,
  type CellLabel,
  type Counts,
  type GraphHeader,
  type GraphMessage,
  ProtocolError,
  Refusal,
  type ReplyContent,
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
  const value = from[key];
  if (!Array.isArray(value)) {
    throw new ProtocolError(`${key} is no list`);
  }
  return value.map(entry => {
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
  return { pid: number(from, 'pid'), state: text(from, 'state') };
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
    counts: decodeCounts(from['counts']),
    resources: { total: amounts(resources['total'], 'total'), available: amounts(resources['available'], 'available') },
    store: { used: count(store, 'used'), capacity: count(store, 'capacity'), objects: count(store, 'objects') },
    new: count(from, 'new'),
    updates: count(from, 'updates'),
    edges: count(from, 'edges')
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
      updateWorker: u1('update_worker', header.updates),
      updateStarted: f8('update_started', header.updates),
      updateFinished: f8('update_finished', header.updates),
      updateSize: f8('update_size', header.updates),
      edges: u4('edges', 2 * header.edges)
    }
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
