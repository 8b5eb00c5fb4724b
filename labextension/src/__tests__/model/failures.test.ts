import { describe, expect, test } from 'vitest';
import { drawTasks } from '../../draw/tasks';
import { drawTimeline } from '../../draw/timeline';
import { TaskArrangement } from '../../layout/arrange';
import { apply } from '../../model/apply';
import { failedThrough, failureInWords, inheritedIn, rootCause } from '../../model/failures';
import { TaskGraph } from '../../model/graph';
import { Moments } from '../../model/history';
import { NONE } from '../../model/rows';
import { tableOf } from '../../model/views/tables';
import { arrange } from '../../model/views/timeline';
import { story } from '../../model/views/timeline_words';
import { describeGroup, describeRow } from '../../panels/shared/describe';
import { Kind, State } from '../../protocol/messages';
import { makeTheme } from '../../theme/theme';
import { message, recorder, workerLabel } from '../helpers';

/**
 * load (0) fails; clean (1) needs it, train (2) needs that; other (3) fails by itself; sum (4) needs a cancelled one
 * (5); 6 and 7: an actor.
 */
function failing(): TaskGraph {
  const graph = new TaskGraph();
  const ended = (row: number, state: State) => ({ row, state, worker: 1, started: row, finished: row + 0.5 });
  apply(
    graph,
    message('snapshot', {
      rows: [
        { fn: 1 },
        { fn: 2 },
        { fn: 3 },
        { fn: 4 },
        { fn: 5 },
        { fn: 6 },
        { fn: 7, kind: Kind.actor_creation, actor: 0 },
        { fn: 8, kind: Kind.actor_call, actor: 0 }
      ],
      updates: [0, 1, 2, 3, 4, 6, 7].map(row => ended(row, State.failed)).concat(ended(5, State.cancelled)),
      edges: [
        [0, 1],
        [1, 2],
        [5, 4]
      ],
      header: {
        now: 20,
        functions: [
          [1, 'load'],
          [2, 'clean'],
          [3, 'train'],
          [4, 'other'],
          [5, 'sum'],
          [6, 'late'],
          [7, 'Server'],
          [8, 'Server.ask']
        ],
        workers: [[1, workerLabel(71, 'idle')]],
        counts: { waiting: 0, queued: 0, running: 0, finished: 0, failed: 7, cancelled: 1 },
        errors: [
          [0, 'FileNotFoundError: a.csv'],
          [3, 'ValueError: no']
        ]
      }
    }),
    0
  );
  return graph;
}

test('a failure is that of what was needed, or its own', () => {
  const graph = failing();
  expect([0, 1, 2, 3, 4, 5, 6, 7].map(row => failedThrough(graph, row))).toEqual([NONE, 0, 1, NONE, 5, NONE, NONE, 6]);
  expect([0, 1, 2, 3, 4, 5, 6, 7].map(row => rootCause(graph, row))).toEqual([0, 0, 0, 3, 5, NONE, 6, 6]);
  expect(inheritedIn(graph).n).toBe(4);
  expect(inheritedIn(graph)).toBe(inheritedIn(graph)); // looked up once
  expect(inheritedIn(new TaskGraph()).n).toBe(0);
});

test('it is said where it began, and why', () => {
  const graph = failing();
  expect([0, 2, 3, 4, 5, 6, 7].map(row => failureInWords(graph, row))).toEqual([
    'FileNotFoundError: a.csv',
    'failed only through load: FileNotFoundError: a.csv',
    'ValueError: no',
    'failed only through late: it was cancelled',
    '',
    '',
    'failed only through Server'
  ]);
  expect(describeRow(graph, 2, 10)).toContain('failed only through load: FileNotFoundError: a.csv');
  expect(story(graph, 3, 10)).toContain('ValueError: no');
  expect(describeGroup(graph, 1)[2]).toBe('1 failed  ·  1 of them only through their inputs');
  expect(describeGroup(graph, 0)[2]).toBe('1 failed');
});

test('the table names the cause', () => {
  const graph = failing();
  const table = tableOf(graph, 'tasks', 10, null, null);
  const state = table.columns.find(({ key }) => key === 'state')!;
  expect([0, 2, 4].map(row => state.text(row))).toEqual(['failed', 'failed via load', 'failed via late']);
  expect([0, 2].map(row => table.isInherited!(row))).toEqual([false, true]);
  expect(table.hint!(2)).toContain('FileNotFoundError');
});

test('of several failed inputs it is the one whose error it has; with an error of its own it failed by itself', () => {
  const failed = (row: number) => ({ row, state: State.failed, started: 0, finished: 1 });
  const graphOf = (errors: [number, string][]) => {
    const graph = new TaskGraph();
    apply(
      graph,
      message('snapshot', {
        rows: [{}, {}, {}],
        updates: [0, 1, 2].map(failed),
        edges: [
          [0, 2],
          [1, 2]
        ],
        header: { errors }
      }),
      0
    );
    return graph;
  };
  expect(
    failedThrough(
      graphOf([
        [0, 'A'],
        [1, 'B']
      ]),
      2
    )
  ).toBe(0);
  expect(
    failedThrough(
      graphOf([
        [0, 'A'],
        [1, 'B'],
        [2, 'B']
      ]),
      2
    )
  ).toBe(1);
  expect(
    failedThrough(
      graphOf([
        [0, 'A'],
        [2, 'B']
      ]),
      2
    )
  ).toBe(1);
  expect(
    failedThrough(
      graphOf([
        [0, 'A'],
        [1, 'B'],
        [2, 'C']
      ]),
      2
    )
  ).toBe(NONE);
});

test('dependencies that go round, as no session has them, end the search', () => {
  const graph = new TaskGraph();
  const failed = (row: number) => ({ row, state: State.failed, started: 0, finished: 1 });
  apply(
    graph,
    message('snapshot', {
      rows: [{}, {}],
      updates: [failed(0), failed(1)],
      edges: [
        [0, 1],
        [1, 0]
      ]
    }),
    0
  );
  expect([0, 1]).toContain(rootCause(graph, 0));
});

test('the past knows them as well', () => {
  const graph = failing();
  const past = new TaskGraph();
  apply(past, new Moments(graph).message(2.6, null), 0);
  expect(failureInWords(past, 2)).toBe('failed only through load: FileNotFoundError: a.csv');
  expect(failureInWords(past, 3)).toBe(''); // it has not failed yet
});

describe('causes are filled, what follows from them is an outline', () => {
  const graph = failing();
  const theme = makeTheme(() => '', false);
  const red = theme.states[State.failed]!.solid;

  test.each([
    ['boxes', 1],
    ['pills', 0.3]
  ] as const)('as %s', (_, zoom) => {
    const arrangement = new TaskArrangement(graph);
    arrangement.update('down');
    const { layout } = arrangement;
    const fills = (row: number) => {
      const { pen, commands } = recorder();
      const scene = {
        graph,
        layout,
        starts: layout.starts(),
        shift: null,
        camera: { x: 0, y: 0, zoom },
        view: { width: 500, height: 700 }
      };
      drawTasks(
        pen,
        { ...scene, theme, now: 10, clockMs: 1e6, isMoving: false, hovered: -1, selected: -1, lit: null },
        [row]
      );
      const colours = commands
        .filter(command => /^fillStyle|^fill /.test(command) || command === 'fill')
        .map(command => command.replace('fillStyle = ', ''));
      return colours.some((colour, i) => colour === red && colours[i + 1]?.startsWith('fill'));
    };
    expect([fills(0), fills(2)]).toEqual([true, false]);
  });

  test('as bars', () => {
    const { pen, commands } = recorder();
    const scale = { t0: 0, pxPerS: 100 };
    const scene = {
      graph,
      theme,
      scale,
      view: { width: 1000, height: 200 },
      top: 0,
      now: 10,
      hovered: -1,
      selected: -1,
      brush: null,
      lit: null
    };
    drawTimeline(pen, { ...scene, arranged: arrange(graph, scale, 900, 10) });
    expect(commands.filter(command => command.startsWith('strokeRect'))).toHaveLength(4);
  });
});
