import { strFromU8, strToU8, unzipSync, zipSync } from 'fflate';
import { expect, test } from 'vitest';
import { Connection } from '../../connection/connection';
import type { Points } from '../../model/learning';
import { ProtocolError } from '../../protocol/errors';
import { State, TrialState } from '../../protocol/messages';
import { decodeLogsReply } from '../../protocol/validators';
import { fromBase64, readRecording } from '../../recording/transport';
import written from './recording.json';
import version2 from './recording_v2.json';

/** Written by the Python side, whose tests check that it still writes the same. */
const file = () => fromBase64(written.base64);

async function opened(content = file()) {
  const transport = await readRecording(content, 'run.cellmesh');
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
  expect([
    graph.nodeOf(0),
    graph.sent[0],
    graph.started[0],
    graph.ended[0],
    graph.finished[0],
    graph.nodeOf(1)
  ]).toEqual([1, 1.8, 2, 2.7, 3, 0]);
  expect(graph.transfers).toEqual([{ row: 0, node: 1, comes: true, size: 8, began: 2.9, ended: 2.95, complete: true }]);
  expect(graph.losses).toEqual([{ row: 1, worker: 256, sent: 3, began: Number.NaN, lost: 3.5 }]);
  expect([graph.isClustered, graph.nodes.get(1)!.ended]).toEqual([true, 8]);
});

test('a recording of version 2 is shown, in the words of today', async () => {
  const { connection, graph } = await opened(fromBase64(version2.base64));
  expect([connection.status.value, connection.trials.experiments]).toEqual(['live', []]);
  expect([0, 1, 2].map(row => graph.name(row))).toEqual(['load', 'line', 'put']);
  expect([graph.workers.get(256)!.state, graph.nodeOf(0), graph.ended[0]]).toEqual(['remote', 1, 2.7]);
  expect(graph.counts).toEqual({ waiting: 0, queued: 0, running: 0, finished: 1, failed: 1, cancelled: 0 });
});

test.each([1, 4, '3', null])(
  'a recording of version %j is refused, and the error says which are read',
  async version => {
    const members = unzipSync(file());
    const about = JSON.parse(strFromU8(members['run.json']!)) as Record<string, unknown>;
    const other = zipSync({ ...members, 'run.json': strToU8(JSON.stringify({ ...about, version })) });
    await expect(readRecording(other, 'x')).rejects.toThrow(`version ${version}, and this panel reads versions 2 to 3`);
  }
);

test('it knows the cards of what failed and what was printed, and does nothing', async () => {
  const { transport } = await opened();
  expect(await transport.request({ op: 'card', row: 1 })).toMatchObject({ text: 'ValueError' });
  expect(await transport.request({ op: 'card', row: 0 })).toMatchObject({ text: '' });
  const { first, lines } = decodeLogsReply(await transport.request({ op: 'logs', after: 1 }));
  expect([first, lines]).toEqual([1, [{ at: 4.5, row: 1, stream: 'stderr', pid: 7, text: '日本語' }]]);
  await expect(transport.request({ op: 'cancel', row: 0, force: false })).rejects.toThrow('no kernel');
});

test('experiments come back, with the curves of any metric, and are rewound', async () => {
  const { connection } = await opened();
  const { trials: link } = connection;
  expect(link.experiments.map(({ name, ended, best }) => [name, ended, best])).toEqual([
    ['digits', Number.POSITIVE_INFINITY, 0],
    ['other', Number.POSITIVE_INFINITY, 0]
  ]);
  link.watch('/digits', '');
  const { trials } = link;
  expect([trials.all(), [...trials.state], [...trials.iteration]]).toEqual([
    [0, 1],
    [TrialState.ended, TrialState.failed],
    [2, 1]
  ]);
  expect([...trials.metrics].map(([name, column]) => [name, ...column])).toEqual([
    ['loss', 0.5, 2],
    ['size', 9, Number.NaN]
  ]);
  expect([...trials.parameters.get('lr')!]).toEqual([0.1, 0.2]);
  expect(trials.words.get('kind')![trials.parameters.get('kind')![1]!]).toBe('bad');
  expect(trials.errors.get(1)).toBe('line');
  expect(trials.curves.map(({ at, x, y }) => [[...at], [...x], [...y]])).toEqual([
    [
      [3, 4.5],
      [1, 2],
      [1, 0.5]
    ],
    [[3.5], [1], [2]]
  ]);
  const then = trials.at(3.2); // the slider's moment
  expect([[...then.state], then.metricOf('loss')[0], then.curves[1]!.at.length]).toEqual([
    [TrialState.running, TrialState.running],
    1,
    0
  ]);
  link.watch('/digits', 'size');
  expect([trials.metric, ...trials.curves.map(({ y }) => [...y])]).toEqual(['size', [9], []]);
  link.watch('/other', '');
  expect([trials.all(), trials.metricOf('score')[0], trials.curves[0]!.y[0]]).toEqual([[0], 1, 1]);
});

test('runs of learning come back, and are rewound', async () => {
  const { connection } = await opened();
  const { runs } = connection.learning;
  expect(runs.labels.map(({ title, state, ended }) => [title, state, ended])).toEqual([
    ['PPO on CartPole-v1', 'running', Number.POSITIVE_INFINITY],
    ['line', 'running', Number.POSITIVE_INFINITY]
  ]);
  expect(runs.of(0).at.length).toBe(0);
  connection.learning.watch(true);
  const told = ({ at, columns }: Points) => [[...at], ...[...columns].map(([name, column]) => [name, ...column])];
  expect(told(runs.of(0))).toEqual([
    [3, 6],
    ['episode_return_mean', Number.NaN, 20.5],
    ['timesteps_total', 100, 200]
  ]);
  expect(told(runs.of(1))).toEqual([[]]);
  expect(told(runs.at(5).of(0))[0]).toEqual([3]);
});

test.each([
  ['nothing', null],
  ['no list', {}],
  ['no description', [null]],
  ['no label', [{ points: {} }]],
  ['no points', [{ label: {} }]]
])('runs of learning that are %s are refused', async (_, learning) => {
  const members = unzipSync(file());
  const about = JSON.parse(strFromU8(members['run.json']!)) as Record<string, unknown>;
  const changed = strToU8(JSON.stringify({ ...about, learning }));
  await expect(readRecording(zipSync({ ...members, 'run.json': changed }), 'x')).rejects.toThrow(ProtocolError);
});

test.each([
  ['"metrics": ["episode_return_mean", "timesteps_total"]', '"metrics": ["loss"]', 'a metric of a run'],
  ['"first": 0, "points": 2', '"first": 0, "points": 3', 'other points']
])('a table of runs that does not fit %s is refused', async (written, changed, reason) => {
  const members = unzipSync(file());
  const about = strFromU8(members['run.json']!);
  expect(about).toContain(written);
  const other = zipSync({ ...members, 'run.json': strToU8(about.replace(written, changed)) });
  await expect(readRecording(other, 'x')).rejects.toThrow(reason);
});

test('a recording from before experiments were recorded has none', async () => {
  const members = unzipSync(file());
  const about = JSON.parse(strFromU8(members['run.json']!)) as Record<string, unknown>;
  delete about['experiments'];
  delete about['learning'];
  const kept = Object.entries(members).filter(
    ([name]) => !/^(trials|settings|results|curves|points|metrics)/.test(name)
  );
  const older = zipSync({ ...Object.fromEntries(kept), 'run.json': strToU8(JSON.stringify(about)) });
  const { connection } = await opened(older);
  expect([connection.status.value, connection.trials.experiments]).toEqual(['live', []]);
  expect(connection.learning.runs.labels).toEqual([]);
});

test.each([
  ['nothing', null],
  ['no list', {}],
  ['no description', [null]],
  ['no label', [{ trials: {} }]]
])('experiments that are %s are refused', async (_, experiments) => {
  const members = unzipSync(file());
  const about = JSON.parse(strFromU8(members['run.json']!)) as Record<string, unknown>;
  const changed = strToU8(JSON.stringify({ ...about, experiments }));
  await expect(readRecording(zipSync({ ...members, 'run.json': changed }), 'x')).rejects.toThrow(ProtocolError);
});

test('a table that names a metric that there is not is refused', async () => {
  const members = unzipSync(file());
  const about = strFromU8(members['run.json']!).replace('["loss", "size"]', '["loss"]');
  await expect(readRecording(zipSync({ ...members, 'run.json': strToU8(about) }), 'x')).rejects.toThrow('a metric');
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
  // Any byte may be damaged: the result is a recording or a refusal, never another error.
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
