import { expect, test } from 'vitest';
import { svgOf } from '../../../draw/svg';
import { drawTimeline } from '../../../draw/timeline';
import { apply } from '../../../model/apply';
import { TaskGraph } from '../../../model/graph';
import { Moments } from '../../../model/history';
import { collectiveInWords, collectivesOf, groupsOf, rankStory, slowest } from '../../../model/views/ranks';
import { arrange } from '../../../model/views/timeline';
import { type ActorLabel, type Collective, Kind, N_COLLECTIVES_MAX, State } from '../../../protocol/messages';
import { makeTheme } from '../../../theme/theme';
import { message, workerLabel } from '../../helpers';

const WIDE = { t0: 0, pxPerS: 100 };

function member(rank: number, group = 'g'): ActorLabel {
  return { name: `Rank[${rank}]`, cls: 'Rank', state: 'alive', pid: 10 + rank, crashed: false, group, rank };
}

function met(worker: number, began: number, ended: number, more: Partial<Collective> = {}): Collective {
  return { worker, began, ended, inside: ended - began, calls: 1, what: 'all_reduce(sum) of float32 (4,)', ...more };
}

/** A call of two seconds on each of the workers 3, 1 and 2, which are the ranks 0, 1 and 2, and a task beside them. */
function ranks(collectives: Collective[]): TaskGraph {
  const graph = new TaskGraph();
  const calls = [0, 1, 2].map(actor => ({ actor, kind: Kind.actor_call, submitted: 0 }));
  const workers = [3, 1, 2, 0];
  apply(
    graph,
    message('snapshot', {
      rows: [...calls, { submitted: 0 }],
      updates: workers.map((worker, row) => ({ row, state: State.finished, worker, started: 1, finished: 3 })),
      header: {
        now: 5,
        workers: workers.map(worker => [worker, workerLabel(worker + 20, 'actor')]),
        actors: [0, 1, 2].map(rank => [rank, member(rank)]),
        collectives: collectives.map((each, number) => [number, each])
      }
    }),
    0
  );
  return graph;
}

/** With plain spaces. */
function plain(lines: string[]): string[] {
  return lines.map(line => line.replaceAll('\u00a0', ' '));
}

const UNEVEN = [met(3, 1.5, 2.9), met(1, 2.8, 2.9), met(2, 1.2, 2.9)];

test('members of a group have a lane each, one below the other in rank order, where its first worker would be', () => {
  const { lanes } = arrange(ranks([]), WIDE, 500, 5);
  expect(lanes.map(({ worker, title, detail }) => [worker, title, detail])).toEqual([
    [0, 'worker', '20'],
    [3, 'rank 0 · Rank', '23'],
    [1, 'rank 1 · Rank', '21'],
    [2, 'rank 2 · Rank', '22']
  ]);
});

test('a call of all members is one box, named without a rank, and so are the members', () => {
  const graph = new TaskGraph();
  const names = ['Trainer[0].step', 'Trainer[1].step', 'rank 0', 'rank 1', 'Trainer', 'Trainer[1].step'];
  const actors = [0, 1, 0, 1, 0, -1];
  apply(
    graph,
    message('snapshot', {
      rows: names.map((_, row) => ({ fn: row + 1, actor: actors[row]!, kind: Kind.actor_call })),
      header: {
        functions: names.map((name, i) => [i + 1, name]),
        actors: [
          [0, member(0)],
          [1, member(1)]
        ]
      }
    }),
    0
  );
  expect(graph.groups.list.map(group => [graph.groupName(group), group.n])).toEqual([
    ['Trainer.step', 2],
    ['ranks', 2],
    ['Trainer', 1],
    ['Trainer[1].step', 1] // of no group: a name that only looks like it
  ]);
});

test('the members of each group stand together, in rank order', () => {
  const list: [number, ActorLabel][] = [
    [4, member(1)],
    [5, { ...member(0), group: '', rank: -1 }],
    [6, member(0, 'h')],
    [7, member(0)]
  ];
  expect(groupsOf(list).map(([group, members]) => [group, members.map(([index]) => index)])).toEqual([
    ['g', [7, 4]],
    ['h', [6]]
  ]);
});

test('of two groups of one class each has its lanes together', () => {
  const graph = ranks([]);
  graph.actors.set(1, member(0, 'h'));
  graph.actors.set(2, member(1, 'g'));
  expect(arrange(graph, WIDE, 500, 5).lanes.map(({ worker, group, rank }) => [worker, group, rank])).toEqual([
    [0, '', -1],
    [1, 'h', 0],
    [3, 'g', 0],
    [2, 'g', 1]
  ]);
});

test('a bar has the stretches that its rank was in collectives, up to its end', () => {
  const { bars } = arrange(ranks([met(3, 1.5, 2), met(3, 2.5, Infinity), met(3, 3.5, 4)]), WIDE, 500, 5);
  const [bar] = bars.filter(({ row }) => row === 0);
  expect(bar!.collectives.map(({ x0, x1, share }) => [x0, x1, share])).toEqual([
    [150, 200, 1],
    [250, 300, 1]
  ]);
});

test('of many short collectives a bar has the share of time', () => {
  const graph = ranks([met(3, 1, 2, { inside: 0.25, calls: 50 })]);
  const [bar] = arrange(graph, WIDE, 500, 5).bars.filter(({ row }) => row === 0);
  expect(bar!.collectives[0]!.share).toBeCloseTo(0.25);
  expect(plain(collectiveInWords(bar!.collectives[0]!.collective, 3))).toEqual([
    'all_reduce(sum) of float32 (4,)',
    '250 ms in 50 collectives'
  ]);
});

test('the slowest rank is the one that is in collectives for less than the others', () => {
  const graph = ranks(UNEVEN);
  const found = slowest(graph, 5);
  expect([...found.keys()]).toEqual([1]);
  expect(found.get(1)).toBeCloseTo(1.3);
  expect(plain(rankStory(graph, 1, 5))).toEqual([
    '100 ms of it in collectives',
    'the slowest rank: the others waited 1.3 s for it'
  ]);
  expect(plain(rankStory(graph, 0, 5))).toEqual(['1.4 s of it in collectives']);
  expect(arrange(graph, WIDE, 500, 5).bars.map(({ row, awaited }) => [row, awaited > 0])).toEqual([
    [3, false],
    [0, false],
    [1, true],
    [2, false]
  ]);
});

test('of ranks that are about as slow as each other none is the slowest', () => {
  const graph = ranks([met(3, 1.5, 2.9), met(1, 2.4, 2.9), met(2, 2.41, 2.9)]);
  expect(slowest(graph, 5).size).toBe(0);
});

test('who waits now for a rank that has not come is seen to wait', () => {
  const graph = ranks([met(3, 1.5, Infinity, { inside: 0, calls: 0 }), met(1, 1.1, 1.2)]);
  graph.state[0] = graph.state[1] = State.running;
  graph.finished[0] = graph.finished[1] = Number.NaN;
  const found = slowest(graph, 5);
  expect(found.get(1)).toBeCloseTo(3.4);
  expect(plain(collectiveInWords(graph.collectives.get(0)!, 5))).toEqual([
    'all_reduce(sum) of float32 (4,)',
    'in it for 3.5 s'
  ]);
});

test('what has ended is judged once for each version of the graph, and what has not at each look', () => {
  const graph = ranks(UNEVEN);
  expect([slowest(graph, 6) === slowest(graph, 5), collectivesOf(graph) === collectivesOf(graph)]).toEqual([
    true,
    true
  ]);
  // The ranks are called again, and rank 2 keeps the others waiting.
  apply(
    graph,
    message('delta', {
      rows: [0, 1, 2].map(actor => ({ actor, kind: Kind.actor_call, submitted: 5 })),
      updates: [3, 1, 2].map((worker, i) => ({ row: 4 + i, state: State.running, worker, started: 5 })),
      header: { now: 6, collectives: [3, 1].map((worker, i) => [3 + i, met(worker, 5.5, Infinity, { inside: 0 })]) }
    }),
    0
  );
  expect(slowest(graph, 6).get(6)).toBeCloseTo(0.5);
  expect(slowest(graph, 7).get(6)).toBeCloseTo(1.5);
  expect(slowest(graph, 7).get(1)).toBeCloseTo(1.3);
});

test('collectives come with messages, the oldest are forgotten, and the past has those of then', () => {
  const graph = ranks(UNEVEN);
  apply(graph, message('delta', { header: { collectives: [[1, met(1, 2.8, 3)]], now: 6 } }), 0);
  expect(graph.collectives.get(1)!.ended).toBe(3);
  const past = new TaskGraph();
  apply(past, new Moments(graph).message(2, null), 0);
  expect([...past.collectives.values()].map(({ worker, ended }) => [worker, ended])).toEqual([
    [3, Infinity],
    [2, Infinity]
  ]);
  const many = Array.from({ length: N_COLLECTIVES_MAX }, (_, i): [number, Collective] => [i + 3, met(1, 4, 5)]);
  apply(graph, message('delta', { header: { collectives: many } }), 0);
  expect([graph.collectives.size, graph.collectives.has(2)]).toEqual([N_COLLECTIVES_MAX, false]);
});

test('the picture has lanes by rank, with the collectives paler and the slowest rank marked', () => {
  const graph = ranks(UNEVEN);
  const view = { width: 608, height: 160 };
  const theme = makeTheme(() => '', false);
  const svg = svgOf(view.width, view.height, pen =>
    drawTimeline(pen, {
      graph,
      theme,
      arranged: arrange(graph, WIDE, 500, 5),
      scale: WIDE,
      view,
      top: 0,
      now: 5,
      hovered: -1,
      selected: -1,
      brush: null,
      lit: null
    })
  );
  expect(svg).toContain('rank 2');
  expect(svg).toContain(theme.states[State.retrying]!.solid);
  expect(svg.match(/ opacity="0.6"/g)?.length).toBe(3);
});
