import { expect, test } from 'vitest';
import { apply } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { phasesOf, queuedFor, readyAt } from '../../model/phases';
import { chromeTrace } from '../../model/views/chrome_trace';
import { tableOf } from '../../model/views/tables';
import { story } from '../../model/views/timeline_words';
import { detailsOf } from '../../panels/shared/describe';
import { State } from '../../protocol/messages';
import { message, workerLabel } from '../helpers';

/** Row 1 waits for row 0 from 0 to 5 and is queued from then on; `update` says what happened then. */
function graphOf(update: object): TaskGraph {
  const graph = new TaskGraph();
  apply(
    graph,
    message('snapshot', {
      rows: [{}, {}],
      edges: [[0, 1]],
      updates: [
        { row: 0, state: State.finished, worker: 1, started: 0, finished: 5 },
        { row: 1, state: State.queued, ...update }
      ],
      header: { functions: [[0, 'f']], workers: [[1, workerLabel(71, 'idle')]] }
    }),
    0
  );
  return graph;
}

test('waiting for inputs is not being queued', () => {
  const graph = graphOf({ state: State.finished, worker: 1, started: 6, called: 6.5, finished: 9 });
  expect(readyAt(graph, 1)).toBe(5);
  expect(phasesOf(graph, 1, 10)).toEqual({ inputs: 5, queued: 1, way: NaN, loading: 0.5, running: 2.5, back: NaN });
});

test('all views show the same', () => {
  const graph = graphOf({ state: State.finished, worker: 1, started: 6, finished: 9 });
  const column = (key: string) =>
    tableOf(graph, 'tasks', 10, null, null)
      .columns.find(each => each.key === key)!
      .text(1);
  const { traceEvents } = JSON.parse(chromeTrace(graph, 10)) as {
    traceEvents: { args: { row?: number; queued_us?: number } }[];
  };
  expect([column('inputs'), column('queued')]).toEqual(['5.0\u00a0s', '1.0\u00a0s']);
  expect(detailsOf(graph, 1, 10)[0]).toContain('waited 5.0\u00a0s for its inputs  ·  queued 1.0\u00a0s');
  expect(story(graph, 1, 10).slice(0, 2)).toEqual([
    '5.0\u00a0s until its inputs were there',
    '1.0\u00a0s in the queue'
  ]);
  expect(traceEvents.find(({ args }) => args.row === 1)!.args.queued_us).toBe(1e6);
});

test('what has not begun is queued until now, or until it was given up', () => {
  expect([phasesOf(graphOf({}), 1, 7).inputs, queuedFor(graphOf({}), 1, 7)]).toEqual([5, 2]);
  expect(queuedFor(graphOf({ state: State.cancelled, finished: 8 }), 1, 10)).toBe(3);
  const waiting = phasesOf(graphOf({ state: State.waiting }), 1, 3);
  expect([waiting.inputs, waiting.queued]).toEqual([3, NaN]);
});

test('on the way to another machine the queue ends when it is sent', () => {
  const graph = graphOf({ state: State.finished, worker: 256, sent: 6, started: 7, ended: 9, finished: 9.5 });
  expect(phasesOf(graph, 1, 10)).toMatchObject({ inputs: 5, queued: 1, way: 1, running: 2, back: 0.5 });
});
