import { expect, test } from 'vitest';
import { mapReduce, parameterServer, quickstart, recursion, type Scenario, Simulation } from '../../../dev/trace';
import { drawGroups } from '../../draw/groups';
import { GroupArrangement } from '../../layout/arrange';
import { apply, rewind } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import type { Group } from '../../model/groups';
import { Moments } from '../../model/history';
import { cpusOf, loads, machinesOf, machineState, underWay } from '../../model/machines';
import { regroup } from '../../model/membership';
import { chromeTrace } from '../../model/views/chrome_trace';
import { tableOf } from '../../model/views/tables';
import { arrange } from '../../model/views/timeline';
import { journey, story } from '../../model/views/timeline_words';
import { describeGroup } from '../../panels/shared/describe';
import {
  type GraphMessage,
  type LineState,
  N_SAMPLES_MAX,
  NO_WORKER,
  type NodeLabel,
  State,
  type WorkerLabel
} from '../../protocol/messages';
import { makeTheme } from '../../theme/theme';
import { machineLabel, message, recorder, sample, workerLabel } from '../helpers';

const remote = (pid: number, node: number) => ({ ...workerLabel(pid, 'remote'), node });
const SCALE = { t0: 0, pxPerS: 100 };

/**
 * Task 0 ran here, 1 on a machine that lives, 2 was lost with another one and ran here then; a value came, another
 * never did.
 */
function cluster(): TaskGraph {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [{}, {}, {}],
      updates: [
        { row: 0, state: State.finished, worker: 3, started: 1, finished: 2 },
        { row: 1, state: State.finished, worker: 256, sent: 1, started: 2, ended: 4, finished: 5 },
        { row: 2, state: State.finished, worker: 3, started: 6, finished: 7 }
      ],
      header: {
        now: 8,
        functions: [[0, 'work']],
        workers: [
          [3, workerLabel(7, 'idle')],
          [256, remote(7, 1)],
          [257, remote(9, 2)],
          [258, remote(0, 2)]
        ],
        nodes: [
          [0, machineLabel('here')],
          [1, machineLabel('oak', { cpus: 2, memory: 100, store: 50 })],
          [2, machineLabel('elm', { state: 'dead', reason: 'silent', ended: 5.5 })]
        ],
        samples: [sample(2, { node: 1, load: 0.5, cpus: 1, memory: 25, store: 10, queued: 4 })],
        transfers: [
          [0, { row: 1, node: 1, comes: true, size: 1000, began: 5, ended: 5.5, complete: true }],
          [1, { row: -1, node: 2, comes: true, size: 10, began: 5, ended: 5.5, complete: false }]
        ],
        losses: [{ row: 2, worker: 257, sent: 1, began: 2, lost: 5.5 }]
      }
    }),
    0
  );
  return graph;
}

test('the lanes of a machine stand beneath its own, which has what travels', () => {
  const { lanes, bars } = arrange(cluster(), SCALE, 1000, 8);
  expect(lanes.map(({ title, node, worker }) => [title, node, worker])).toEqual([
    ['here', 0, -1],
    ['worker', 0, 3],
    ['oak', 1, -1],
    ['worker', 1, 256],
    ['elm', 2, -1],
    ['worker', 2, 257]
  ]);
  expect(bars.map(({ lane, kind, row, from, x0, x1, to }) => [lane, kind, row, from, x0, x1, to])).toEqual([
    [1, 'run', 0, 100, 100, 200, 200],
    [1, 'run', 2, 600, 600, 700, 700],
    [2, 'transfer', 1, 500, 500, 550, 550],
    [3, 'run', 1, 100, 200, 400, 500],
    [4, 'transfer', -1, 500, 500, 550, 550],
    [5, 'lost', 2, 100, 200, 550, 550]
  ]);
});

test('old samples are thinned for each machine by itself', () => {
  const graph = new TaskGraph();
  const nodes: [number, NodeLabel][] = [0, 1].map(node => [node, machineLabel(`n${node}`)]);
  apply(graph, message('snapshot', { header: { nodes } }), 0);
  const samples = Array.from({ length: 4 * N_SAMPLES_MAX + 2 }, (_, i) => sample(i >> 1, { node: i % 2 }));
  apply(graph, message('delta', { header: { samples } }), 1);
  const of = (node: number) => graph.samples.filter(each => each.node === node).map(({ at }) => at);
  expect([of(0).slice(0, 3), of(1).slice(0, 3)]).toEqual([
    [0, 2, 4],
    [0, 2, 4]
  ]);
  expect(graph.samples.length).toBe(2 * N_SAMPLES_MAX + 2);
  expect(graph.samples.at(-1)).toEqual(samples.at(-1));
});

test('what ran on another machine took as long as it ran there', () => {
  const graph = cluster();
  expect([graph.duration(1, 8), graph.nodeOf(1), graph.nodeName(1), graph.isClustered]).toEqual([2, 1, 'oak', true]);
  expect(story(graph, 1, 8)).toEqual([
    '1.0\u00a0s in the queue',
    '1.0\u00a0s on the way to oak',
    'ran 2.0\u00a0s',
    '1.0\u00a0s until its result was here'
  ]);
  expect(journey(graph, graph.transfers[0]!, 8)).toEqual([
    'result of work',
    '1\u00a0kB from oak',
    'in 500\u00a0ms  ·  2\u00a0kB per second'
  ]);
  expect(journey(graph, graph.transfers[1]!, 8)[2]).toBe('given up after 500\u00a0ms');
});

test('CPUs are those of all machines that are there', () => {
  const graph = cluster();
  const counts = { waiting: 0, queued: 0, running: 1, finished: 2, failed: 0, cancelled: 0 };
  apply(
    graph,
    message('delta', { header: { now: 8, counts, resources: { total: { CPU: 3 }, available: { CPU: 1 } } } }),
    0
  );
  expect(cpusOf(graph)).toEqual({ used: 3, total: 5, nMachines: 2 }); // one of them is dead
  apply(
    graph,
    message('delta', {
      header: { now: 9, counts: { ...counts, running: 0 }, resources: { total: { CPU: 3 }, available: { CPU: 3 } } }
    }),
    0
  );
  expect(cpusOf(graph).used).toBe(0); // the last sample of a machine is of when there was work
});

test('a row for each machine', () => {
  const [here, oak, elm] = machinesOf(cluster(), 8);
  expect([here!.came, here!.went, oak!.came, oak!.went]).toEqual([1000, 0, 0, 1000]);
  expect([here, oak, elm].map(facts => machineState(facts!))).toEqual([
    'this machine',
    'alive',
    'lost at 5.5\u00a0s: silent'
  ]);
  expect([elm!.lost, oak!.lost, oak!.now?.queued]).toEqual([1, 0, 4]);
  expect(loads(oak!).map(({ share }) => share)).toEqual([0.5, 0.25, 0.2]);
  expect(loads(elm!).map(({ share, brief }) => [share, brief])).toEqual([
    [0, ''],
    [0, ''],
    [0, '']
  ]);
});

test('what was sent and has not begun waits there; of a cluster of others no load is known', () => {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [{}, {}],
      updates: [
        { row: 0, state: State.running, worker: 256, sent: 1, started: 2 },
        { row: 1, state: State.queued, worker: 257, sent: 1 }
      ],
      header: {
        now: 8,
        functions: [[0, 'work']],
        workers: [
          [256, remote(7, 1)],
          [257, remote(0, 1)]
        ],
        nodes: [
          [0, machineLabel('here')],
          [1, machineLabel('dask', { cpus: 2, window: 1000 })]
        ],
        samples: [sample(2, { node: 1, cpus: 1 })]
      }
    }),
    0
  );
  const dask = machinesOf(graph, 8)[1]!;
  expect([dask.running, dask.sent]).toEqual([1, 1]);
  expect(underWay(dask)).toBe('2 of at most 1,000 under way');
  expect(loads(dask).map(({ share, brief, words }) => [share, brief, words])).toEqual([
    [Number.NaN, 'tasks have 1 of 2', 'tasks have 1 of 2']
  ]);
  expect(arrange(graph, SCALE, 1000, 8).bars.map(({ row }) => row)).toEqual([0]);
  expect(story(graph, 1, 8)).toContain('sent to dask');
});

test.each([
  ['connected', {}, 'connected'],
  ['slow', {}, 'no answer since 12:03'],
  ['broken', {}, 'line broken since 12:03, it is tried again'],
  [
    'lost',
    { state: 'dead', ended: 1323, reason: 'no <b>answer</b>' },
    'given up at 22:03, it is tried from the beginning: no <b>answer</b>'
  ],
  ['', { state: 'dead', ended: 1323, reason: 'it has ended' }, 'lost at 22:03: it has ended'],
  ['', {}, 'alive']
] as [LineState, Partial<NodeLabel>, string][])('of an engine whose line is %j it says so', (line, more, words) => {
  const graph = new TaskGraph();
  const label = machineLabel('ray', { window: 1000, line, line_since: 723, ...more });
  apply(graph, message('snapshot', { header: { nodes: [[1, label]] } }), 0);
  expect(machineState(machinesOf(graph, 0)[0]!)).toBe(words);
});

test('tables and traces say where', () => {
  const graph = cluster();
  const table = tableOf(graph, 'tasks', 8, null, null);
  const node = table.columns.find(({ key }) => key === 'node')!;
  expect([0, 1, 2].map(row => node.text(row))).toEqual(['here', 'oak', 'here']);
  expect(table.words(1)).toContain('oak');
  const { traceEvents } = JSON.parse(chromeTrace(graph, 8)) as {
    traceEvents: { name: string; ph: string; pid: number; cat?: string; args: { name?: string } }[];
  };
  expect(traceEvents.filter(({ name }) => name === 'process_name').map(({ pid, args }) => [pid, args.name])).toEqual([
    [1, 'cellmesh abc'],
    [2, 'oak'],
    [3, 'elm']
  ]);
  expect(traceEvents.filter(({ cat }) => cat === 'lost').map(({ pid }) => pid)).toEqual([3]);
});

test('before a machine was lost it was there', () => {
  const graph = cluster();
  const past = new TaskGraph();
  apply(past, new Moments(graph).message(5.2, null), 0);
  expect([past.nodes.get(2)!.state, past.losses.length, past.transfers[0]!.complete]).toEqual(['alive', 0, false]);
  expect([past.state[1], past.sent[1], past.ended[1]]).toEqual([State.finished, 1, 4]);
});

/** What groups say, regardless of their order. */
function groupsOf({ groups: { list, edges } }: TaskGraph) {
  const name = ({ cell, fn, kind, node }: Group) => [cell, fn, kind, node].join();
  const there = list
    .filter(({ n }) => n)
    .map(group => [
      name(group),
      group.n,
      [...group.counts],
      group.nTimed,
      Number(group.seconds.toFixed(6)) + 0,
      group.bytes,
      group.waffle.bucketSize,
      [...group.waffle.counts]
    ]);
  return {
    there: there.sort(),
    edges: edges.map(({ source, target, n }) => [name(list[source]!), name(list[target]!), n].join()).sort()
  };
}

/** A scenario whose workers are on three machines. */
function* spread(scenario: Scenario): Generator<GraphMessage> {
  const simulation = new Simulation(scenario);
  for (let now = 0; !simulation.isOver; now += 0.05) {
    const { header, arrays } = simulation.step(now);
    const number = (worker: number) => (worker !== NO_WORKER && worker % 3 ? 256 + worker : worker);
    const workers = header.workers.map(
      ([worker, label]) => [number(worker), { ...label, node: worker % 3 }] as [number, WorkerLabel]
    );
    yield { header: { ...header, workers }, arrays: { ...arrays, updateWorker: arrays.updateWorker.map(number) } };
  }
}

test.each([
  ['quickstart', quickstart],
  ['recursion', recursion],
  ['parameter server', parameterServer],
  ['many', () => mapReduce(400, 0.05, 8)]
] as const)(
  'by machine, groups of %s that rows come into one by one are those that are made at once',
  (_, scenario) => {
    const [followed, plain] = [new TaskGraph(), new TaskGraph()];
    regroup(followed, true);
    for (const each of spread(scenario())) {
      apply(followed, each, 0);
      apply(plain, each, 0);
    }
    const usual = groupsOf(plain);
    const { epoch } = plain;
    regroup(plain, true);
    expect(groupsOf(followed)).toEqual(groupsOf(plain));
    expect(new Set(followed.groups.list.filter(({ n }) => n).map(({ node }) => node)).size).toBe(3);
    expect(plain.epoch).toBe(epoch + 1);
    // Going through the past, with rows that leave their machines and return, gives the same graphs.
    const moments = new Moments(followed);
    const [walking, last] = [new TaskGraph(), followed.now + 1];
    regroup(walking, true);
    apply(walking, moments.message(last, null), 0);
    const places = walking.groups.list.map(({ cell, fn, node }) => [cell, fn, node]);
    let before = last;
    for (const at of [0.8, 0.5, 0.7, 0.2, 0.9, 1.1].map(share => share * followed.now)) {
      if (at < before) {
        rewind(walking, moments.rowsAt(at), at);
      }
      apply(walking, moments.message(at, before), 0);
      before = at;
      const jumped = new TaskGraph();
      apply(jumped, moments.message(at, null), 0);
      regroup(jumped, true);
      expect(groupsOf(walking)).toEqual(groupsOf(jumped));
    }
    expect(walking.groups.list.map(({ cell, fn, node }) => [cell, fn, node])).toEqual(places);
    regroup(plain, false);
    expect(groupsOf(plain)).toEqual(usual);
  }
);

test('each machine has a part of the picture', () => {
  const graph = cluster();
  regroup(graph, true);
  expect(graph.groups.list.map(({ node, n }) => [node, n])).toEqual([
    [0, 2],
    [1, 1]
  ]);
  expect(describeGroup(graph, 1)).toEqual(['work', '1 task  ·  on oak  ·  2.0\u00a0s on average', '1 finished']);
  const arrangement = new GroupArrangement(graph);
  arrangement.update('down');
  const { layout } = arrangement;
  expect([0, 1].map(box => [layout.bandOf(box).shelf, layout.slot[box]])).toEqual([
    [0, 0],
    [0, 1.5]
  ]);
  const { pen, commands } = recorder();
  const scene = {
    graph,
    layout,
    starts: layout.starts(),
    shift: null,
    camera: { x: 0, y: 0, zoom: 1 },
    view: { width: 500, height: 700 }
  };
  drawGroups(
    pen,
    {
      ...scene,
      theme: makeTheme(() => '', false),
      now: 8,
      clockMs: 0,
      isMoving: false,
      hovered: -1,
      selected: -1,
      lit: null
    },
    [0, 1]
  );
  expect(commands.filter(command => /^fillText (here|oak) /.test(command))).toHaveLength(2);
});
