import { describe, expect, test } from 'vitest';
import { decodeGraphMessage, decodeReply } from '../../protocol/decode';
import { ProtocolError, Refusal } from '../../protocol/errors';
import { Kind, State, VERSION } from '../../protocol/messages';
import { message, onTheWire } from '../helpers';

const parts = {
  rows: [{ fn: 3 }, { kind: Kind.object, submitted: 2.5 }],
  updates: [{ row: 0, state: State.running, worker: 2, started: 1.5 }],
  edges: [[1, 0]] as [number, number][],
  header: { functions: [[3, 'add']] as [number, string][] }
};

describe('a graph message', () => {
  const [data, buffers] = onTheWire(message('snapshot', parts), 0);

  test('comes out as it went in', () => {
    expect(decodeGraphMessage(data, buffers)).toEqual({
      header: { ...message('snapshot', parts).header, n: 0 },
      arrays: message('snapshot', parts).arrays
    });
  });

  test('may lie anywhere in a larger buffer', () => {
    const views = buffers.map(buffer => {
      const larger = new Uint8Array(buffer.byteLength + 3);
      larger.set(new Uint8Array(buffer), 3);
      return new DataView(larger.buffer, 3);
    });
    expect(decodeGraphMessage(data, views).arrays).toEqual(decodeGraphMessage(data, buffers).arrays);
  });

  test.each([
    ['no object', null],
    ['another type', { ...data, type: 'delete' }],
    ['another version', { ...data, v: VERSION + 1 }],
    ['a missing field', { ...data, tasks: undefined }],
    ['a count below zero', { ...data, tasks: -1 }],
    ['a number that is text', { ...data, now: '1' }],
    ['a broken entry', { ...data, functions: [['x', 'add']] }],
    ['a cell without a label', { ...data, cells: [[1, { id: '' }]] }],
    ['a number that is no integer', { ...data, tasks: 1.5 }],
    ['a list that is cut', { ...data, losses: [[0, 1, 2.5]] }],
    ['a flag that is a number', { ...data, actors: [[0, { name: '', cls: 'A', state: 'alive', pid: 1, crashed: 1 }]] }],
    ['a size that disagrees with its buffer', { ...data, updates: 2 }]
  ])('is refused: %s', (_, broken) => {
    expect(() => decodeGraphMessage(broken, buffers)).toThrow(ProtocolError);
  });

  test('of before errors were told has none', () => {
    const { errors, ...older } = data;
    expect(errors).toEqual([]);
    expect(decodeGraphMessage(older, buffers).header.errors).toEqual([]);
  });

  test('has numbers for times that have not come', () => {
    const worker = { pid: 7, state: 'busy', since: 0, ended: null, node: 0 };
    const { header } = decodeGraphMessage({ ...data, workers: [[0, worker]], losses: [[0, 1, 2.5, null, 3]] }, buffers);
    expect(header.workers).toEqual([[0, { ...worker, ended: Number.POSITIVE_INFINITY }]]);
    expect(header.losses).toEqual([{ row: 0, worker: 1, sent: 2.5, began: Number.NaN, lost: 3 }]);
  });

  test('is refused when a buffer is missing or cut', () => {
    expect(() => decodeGraphMessage(data, buffers.slice(0, 8))).toThrow(ProtocolError);
    expect(() =>
      decodeGraphMessage(
        data,
        buffers.map(buffer => buffer.slice(1))
      )
    ).toThrow(ProtocolError);
  });
});

test('a reply is its fields, a refusal an error with the kernel’s words', () => {
  expect(decodeReply({ status: 'ok', text: 'hi' })).toMatchObject({ text: 'hi' });
  expect(() => decodeReply({ status: 'error', ename: 'RequestError', evalue: 'No such row.' })).toThrow(
    new Refusal('RequestError', 'No such row.')
  );
  expect(() => decodeReply('ok')).toThrow(ProtocolError);
});
