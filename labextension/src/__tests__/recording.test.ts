import { zipSync } from 'fflate';
import { expect, test } from 'vitest';
import { Connection } from '../connection';
import { decodeLogs } from '../decode';
import { ProtocolError, State } from '../protocol';
import { fromBase64, readRecording } from '../recording';
import written from './recording.json';

/** Written by the Python side, whose tests see to it that it is what it writes today. */
const file = () => fromBase64(written.base64);

async function opened() {
  const transport = await readRecording(file(), 'run.cellmesh');
  const connection = new Connection(transport, 'recording');
  await connection.start();
  return { transport, connection, graph: connection.graph };
}

test('a recording is shown without a kernel', async () => {
  const { connection, graph } = await opened();
  expect(connection.status.value).toBe('live');
  expect([0, 1, 2].map(row => graph.name(row))).toEqual(['load', 'line', 'put']);
  expect([...graph.state.subarray(0, 3)]).toEqual([State.finished, State.failed, State.finished]);
  expect([graph.started[1], graph.finished[1], graph.size[2]]).toEqual([4, 5, 1e6]);
  expect([...graph.dependencies(1)]).toEqual([0]);
  expect(graph.time(1e9)).toBe(9);
  expect(graph.resourcesAt(2).store).toBe(2);
  expect(graph.workers.get(3)).toEqual({ pid: 7, state: 'idle', since: 0.5, ended: Number.POSITIVE_INFINITY, node: 0 });
  expect([graph.nodeOf(0), graph.sent[0], graph.started[0], graph.ended[0], graph.finished[0], graph.nodeOf(1)]).toEqual([1, 1.8, 2, 2.7, 3, 0]);
  expect(graph.transfers).toEqual([{ row: 0, node: 1, comes: true, size: 8, began: 2.9, ended: 2.95, complete: true }]);
  expect(graph.losses).toEqual([{ row: 1, worker: 256, sent: 3, began: Number.NaN, lost: 3.5 }]);
  expect([graph.isClustered, graph.nodes.get(1)!.ended]).toEqual([true, 8]);
});

test('it knows the cards of what failed and what was printed, and does nothing', async () => {
  const { transport } = await opened();
  expect(await transport.request({ op: 'card', row: 1 })).toMatchObject({ text: 'ValueError' });
  expect(await transport.request({ op: 'card', row: 0 })).toMatchObject({ text: '' });
  const { first, lines } = decodeLogs(await transport.request({ op: 'logs', after: 1 }));
  expect([first, lines]).toEqual([1, [{ at: 4.5, row: 1, stream: 'stderr', pid: 7, text: '日本語' }]]);
  await expect(transport.request({ op: 'cancel', row: 0, force: false })).rejects.toThrow('no kernel');
});

test('what is too large as a whole is refused before it is unpacked', async () => {
  const archive = zipSync({ 'run.json': new Uint8Array(10), 'events.arrow': new Uint8Array(10) });
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  for (let at = 0; at < archive.length - 46; at++) {
    if (view.getUint32(at, true) === 0x02014b50) {
      view.setUint32(at + 24, 0x30000000, true); // what each says of itself is less than the limit
    }
  }
  await expect(readRecording(archive, 'x')).rejects.toThrow('larger than any recording');
});

test('a damaged file is refused, wherever the damage is', async () => {
  const whole = file();
  await expect(readRecording(new Uint8Array(0), 'x')).rejects.toThrow(ProtocolError);
  for (let cut = 1; cut < whole.length; cut += 97) {
    await expect(readRecording(whole.slice(0, cut), 'x')).rejects.toThrow(ProtocolError);
  }
  // Any byte may be another one: what comes out is a recording or a refusal, never another error.
  let refused = 0;
  for (let at = 0; at < whole.length; at += 13) {
    const changed = whole.slice();
    changed[at] = changed[at]! ^ 0xff;
    try {
      const transport = await readRecording(changed, 'x');
      const connection = new Connection(transport, 'damaged');
      await connection.start();
    } catch (error) {
      expect(error).toBeInstanceOf(ProtocolError);
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(20);
});
