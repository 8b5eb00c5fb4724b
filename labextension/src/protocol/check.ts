// protocol/: messages, checked at the border; never what they mean for the graph.

// The checks that `validators.ts` is made of. Each takes a value and its name for messages, and returns the value with
// its type or throws `ProtocolError`.

import { ProtocolError } from './errors';

export type Json = Record<string, unknown>;
export type Buffer = ArrayBuffer | ArrayBufferView;
type Check<T> = (value: unknown, what: string) => T;
interface Column<T> {
  readonly BYTES_PER_ELEMENT: number;
  new (memory: ArrayBuffer, offset: number, n: number): T;
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function record(value: unknown, what: string): Json {
  if (!isObject(value)) {
    throw new ProtocolError(`${what} is no object`);
  }
  return value;
}

export function values(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) {
    throw new ProtocolError(`${what} is no list`);
  }
  return value;
}

export function number(value: unknown, what: string): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new ProtocolError(`${what} is no number`);
  }
  return value;
}

export function integer(value: unknown, what: string): number {
  if (!Number.isInteger(value)) {
    throw new ProtocolError(`${what} is no integer`);
  }
  return value as number;
}

export function count(value: unknown, what: string): number {
  if (integer(value, what) < 0) {
    throw new ProtocolError(`${what} is below zero`);
  }
  return value as number;
}

export function text(value: unknown, what: string): string {
  if (typeof value !== 'string') {
    throw new ProtocolError(`${what} is no text`);
  }
  return value;
}

export function flag(value: unknown, what: string): boolean {
  if (typeof value !== 'boolean') {
    throw new ProtocolError(`${what} is neither true nor false`);
  }
  return value;
}

export function oneOf<Word extends string>(value: unknown, what: string, words: readonly Word[]): Word {
  const found = words.find(word => word === value);
  if (found === undefined) {
    throw new ProtocolError(`${what} is none of ${words.join(', ')}`);
  }
  return found;
}

export function list<T>(value: unknown, what: string, item: Check<T>): T[] {
  return values(value, what).map(each => item(each, what));
}

export function pair<A, B>(value: unknown, what: string, first: Check<A>, second: Check<B>): [A, B] {
  const both = values(value, what);
  return [first(both[0], what), second(both[1], what)];
}

export function dictionary<T>(value: unknown, what: string, item: Check<T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record(value, what)).map(([key, each]) => [key, item(each, key)]));
}

/** A buffer as `n` items of a type, copied only where a typed array could not look at it in place. */
export function column<T>(type: Column<T>, buffer: Buffer | undefined, n: number, name: string): T {
  const size = n * type.BYTES_PER_ELEMENT;
  if (buffer?.byteLength !== size) {
    throw new ProtocolError(`buffer ${name} has ${buffer?.byteLength ?? 'no'} bytes, expected ${size}`);
  }
  if (buffer instanceof ArrayBuffer) {
    return new type(buffer, 0, n);
  }
  const memory = buffer.buffer as ArrayBuffer;
  return buffer.byteOffset % type.BYTES_PER_ELEMENT === 0
    ? new type(memory, buffer.byteOffset, n)
    : new type(memory.slice(buffer.byteOffset, buffer.byteOffset + size), 0, n);
}
