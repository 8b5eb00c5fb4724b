// The columns of an Arrow file, as far as recordings have them: numbers and texts, without nulls, not compressed.
//
// Arrow's own library is ten times the size of this panel. A file is a magic word, messages with their bodies, and a footer
// that says where they lie; messages and footer are flatbuffers, read here field by field. Column buffers are used where
// they lie. Offsets out of range throw a RangeError, which becomes a `ProtocolError`.

import { ProtocolError } from './protocol';

export type Column = Uint8Array | Uint32Array | Int32Array | Float64Array | string[];

const MAGIC = 'ARROW1';
const ALIGN = 8;
/** Members of Arrow's unions. */
const TYPE_INT = 2;
const TYPE_FLOAT = 3;
const TYPE_TEXT = 5;
const RECORD_BATCH = 3;
const DOUBLE = 2;

/** A flatbuffer's table: fields by number, of which any may be absent. */
class Table {
  constructor(
    private readonly view: DataView,
    private readonly at: number
  ) {}

  static root(view: DataView, at: number): Table {
    return new Table(view, at + view.getUint32(at, true));
  }

  /** Where a field lies, 0 if it is absent. */
  private field(number: number): number {
    const table = this.at - this.view.getInt32(this.at, true);
    const slot = 4 + 2 * number;
    const offset = slot < this.view.getUint16(table, true) ? this.view.getUint16(table + slot, true) : 0;
    return offset && this.at + offset;
  }

  byte(number: number): number {
    const at = this.field(number);
    return at ? this.view.getUint8(at) : 0;
  }

  short(number: number): number {
    const at = this.field(number);
    return at ? this.view.getInt16(at, true) : 0;
  }

  int(number: number): number {
    const at = this.field(number);
    return at ? this.view.getInt32(at, true) : 0;
  }

  table(number: number): Table {
    const at = this.field(number);
    if (!at) {
      throw new RangeError();
    }
    return new Table(this.view, at + this.view.getUint32(at, true));
  }

  text(number: number): string {
    const at = this.field(number);
    const start = at + this.view.getUint32(at, true);
    return new TextDecoder().decode(new Uint8Array(this.view.buffer, this.view.byteOffset + start + 4, this.view.getUint32(start, true)));
  }

  /** Where a vector's items begin, and how many there are. */
  vector(number: number): [number, number] {
    const at = this.field(number);
    if (!at) {
      return [0, 0];
    }
    const start = at + this.view.getUint32(at, true);
    return [start + 4, this.view.getUint32(start, true)];
  }

  tables(number: number): Table[] {
    const [start, n] = this.vector(number);
    return Array.from({ length: n }, (_, i) => new Table(this.view, start + 4 * i + this.view.getUint32(start + 4 * i, true)));
  }

  has(number: number): boolean {
    return this.field(number) !== 0;
  }
}

/** The columns of an Arrow file by name. Throws `ProtocolError` when it is none, or has what recordings have not. */
export function readArrow(file: Uint8Array<ArrayBuffer>): Map<string, Column> {
  try {
    return read(file);
  } catch (error) {
    if (error instanceof RangeError) {
      throw new ProtocolError('a table of the recording is damaged');
    }
    throw error;
  }
}

function read(bytes: Uint8Array<ArrayBuffer>): Map<string, Column> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const word = (at: number) => String.fromCharCode(...bytes.subarray(at, at + MAGIC.length));
  if (word(0) !== MAGIC || word(bytes.length - MAGIC.length) !== MAGIC) {
    throw new ProtocolError('a table of the recording is no Arrow file');
  }
  const footer = Table.root(view, bytes.length - MAGIC.length - 4 - view.getInt32(bytes.length - MAGIC.length - 4, true));
  const fields = footer.table(1).tables(1);
  const parts = fields.map((): Column[] => []);
  const [blocks, nBlocks] = footer.vector(3);
  for (let i = 0; i < nBlocks; i++) {
    // A block is a struct: where the message begins, how long its metadata is, how long its body.
    const block = blocks + 24 * i;
    const offset = Number(view.getBigInt64(block, true));
    const metadata = view.getInt32(block + 8, true);
    const hasMarker = view.getUint32(offset, true) === 0xffffffff;
    const message = Table.root(view, offset + (hasMarker ? 8 : 4));
    const batch = message.table(2);
    if (message.byte(1) !== RECORD_BATCH || batch.has(3)) {
      throw new ProtocolError('a table of the recording is compressed, or no table');
    }
    readBatch(view, batch, fields, offset + metadata, parts);
  }
  return new Map(fields.map((field, i) => [field.text(0), joined(parts[i]!, field)]));
}

function readBatch(view: DataView, batch: Table, fields: Table[], body: number, parts: Column[][]): void {
  const [nodes] = batch.vector(1);
  const [buffers, nBuffers] = batch.vector(2);
  let next = 0;
  const buffer = (): [number, number] => {
    if (next >= nBuffers) {
      throw new RangeError();
    }
    const at = buffers + 16 * next++;
    return [body + Number(view.getBigInt64(at, true)), Number(view.getBigInt64(at + 8, true))];
  };
  fields.forEach((field, i) => {
    const n = Number(view.getBigInt64(nodes + 16 * i, true));
    if (view.getBigInt64(nodes + 16 * i + 8, true) !== 0n) {
      throw new ProtocolError('a table of the recording has gaps');
    }
    buffer(); // which items are there: all
    if (field.byte(2) === TYPE_TEXT) {
      const [offsets] = buffer();
      const [texts, size] = buffer();
      parts[i]!.push(readTexts(items(view, Int32Array, offsets, n ? n + 1 : 0), items(view, Uint8Array, texts, size)));
    } else {
      parts[i]!.push(items(view, arrayOf(field), buffer()[0], n));
    }
  });
}

type Numbers = Uint8Array | Uint32Array | Int32Array | Float64Array;
interface NumbersType<T extends Numbers> {
  new (buffer: ArrayBuffer, offset: number, length: number): T;
  readonly BYTES_PER_ELEMENT: number;
}

/** `n` numbers from a place on, where they lie if that suits them. */
function items<T extends Numbers>(view: DataView, type: NumbersType<T>, at: number, n: number): T {
  const size = n * type.BYTES_PER_ELEMENT;
  if (at < 0 || n < 0 || at + size > view.byteLength) {
    throw new RangeError();
  }
  const buffer = view.buffer as ArrayBuffer;
  const start = view.byteOffset + at;
  return start % ALIGN === 0 ? new type(buffer, start, n) : new type(buffer.slice(start, start + size), 0, n);
}

function arrayOf(field: Table): NumbersType<Numbers> {
  const type = field.table(3);
  const isInt = field.byte(2) === TYPE_INT;
  const bits = isInt ? type.int(0) : 0;
  const isSigned = isInt && type.byte(1) === 1;
  if (isInt && bits === 8 && !isSigned) {
    return Uint8Array;
  }
  if (isInt && bits === 32) {
    return isSigned ? Int32Array : Uint32Array;
  }
  if (field.byte(2) === TYPE_FLOAT && type.short(0) === DOUBLE) {
    return Float64Array;
  }
  throw new ProtocolError(`a column of the recording, ${field.text(0)}, is of an unknown type`);
}

function readTexts(offsets: Int32Array, bytes: Uint8Array): string[] {
  const decoder = new TextDecoder();
  return Array.from({ length: Math.max(0, offsets.length - 1) }, (_, i) => decoder.decode(bytes.subarray(offsets[i]!, offsets[i + 1]!)));
}

function joined(parts: Column[], field: Table): Column {
  if (parts.length === 1) {
    return parts[0]!;
  }
  if (field.byte(2) === TYPE_TEXT) {
    return (parts as string[][]).flat();
  }
  const all = parts as Numbers[];
  const type = arrayOf(field);
  const n = all.reduce((sum, part) => sum + part.length, 0);
  const column = new type(new ArrayBuffer(n * type.BYTES_PER_ELEMENT), 0, n);
  let at = 0;
  for (const part of all) {
    column.set(part, at);
    at += part.length;
  }
  return column;
}
