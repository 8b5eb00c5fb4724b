// recording/: a file in place of a kernel; never the page.

// Reads the columns of an Arrow file: numbers and texts without nulls, which is all that recordings have.

import { type Table, tableFromIPC } from 'apache-arrow';
import { ProtocolError } from '../protocol/errors';

export type Column = Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array | string[];

const NUMBERS = [Uint8Array, Uint16Array, Uint32Array, Int32Array, Float32Array, Float64Array];

/** The columns by name. Throws `ProtocolError` when it is no Arrow file, or has what recordings have not. */
export function readArrow(file: Uint8Array<ArrayBuffer>): Map<string, Column> {
  try {
    const table = tableFromIPC(file);
    return new Map(table.schema.fields.map(({ name }) => [name, columnOf(table, name)]));
  } catch (error) {
    // The library trusts a file's offsets and sizes, and fails in many ways when they are wrong.
    throw error instanceof ProtocolError ? error : new ProtocolError('a table of the recording is damaged');
  }
}

function columnOf(table: Table, name: string): Column {
  const vector = table.getChild(name);
  if (!vector || vector.nullCount) {
    throw new ProtocolError('a table of the recording has gaps');
  }
  const column: unknown = vector.toArray();
  if (NUMBERS.some(type => column instanceof type)) {
    return column as Column;
  }
  const items = [...vector] as unknown[];
  if (!items.every(item => typeof item === 'string')) {
    throw new ProtocolError(`a column of the recording, ${name}, is of an unknown type`);
  }
  return items;
}
