import { expect, test } from 'vitest';
import schema from '../protocol.schema.json';
import { ANNOUNCE_TARGET, BUFFERS, COMM_TARGET, Kind, NO_WORKER, REQUEST_TYPE, State, VERSION } from '../protocol';
import { message } from './helpers';

test('agrees with the schema that the kernel side exports', () => {
  expect(schema.version).toBe(VERSION);
  expect(schema.targets).toMatchObject({ comm: COMM_TARGET, announce: ANNOUNCE_TARGET, request: REQUEST_TYPE });
  expect(schema.buffers.map(({ name, dtype, items }) => [name, dtype, items])).toEqual(BUFFERS.map(buffer => [...buffer]));
  expect(schema.states).toEqual(State);
  expect(schema.kinds).toEqual(Kind);
  expect(schema.no_worker).toBe(NO_WORKER);
});

test('knows every field of a graph message', () => {
  const known = new Set([...Object.keys(message('snapshot').header), 'v']);
  expect(new Set(Object.keys(schema.$defs.Snapshot.properties))).toEqual(known);
});
