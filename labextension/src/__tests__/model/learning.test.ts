import { beforeEach, expect, test } from 'vitest';
import { learning, pointsOf } from '../../../dev/runs';
import type { Told } from '../../../dev/search';
import { LearningRuns } from '../../model/learning';
import { NONE } from '../../model/rows';
import {
  latest,
  metricFirst,
  metricsOf,
  nearest,
  overFirst,
  RETURN,
  seriesOf,
  tableOf
} from '../../model/views/learning';
import { search } from '../../model/views/table';
import { ProtocolError } from '../../protocol/errors';
import type { LearningLabel } from '../../protocol/messages';
import { decodeLearning, decodeLearningArrays, decodeLearningPoints } from '../../protocol/validators';

let runs: LearningRuns;

function take({ data, buffers }: Told, change: Record<string, unknown> = {}): void {
  const header = decodeLearningPoints({ ...data, ...change });
  runs.apply(header, decodeLearningArrays(header, buffers));
}

function begin(n: number, length: number): void {
  runs = new LearningRuns();
  const [list, ...points] = learning(n, length);
  runs.list(decodeLearning(list!.data).runs);
  points.forEach(each => take(each));
}

beforeEach(() => begin(3, 20));

const column = (run: number, name: string) => [...runs.of(run).columns.get(name)!];

test('points that follow stand in place of the last ones', () => {
  expect([runs.of(1).at.length, column(1, 'training_iteration').at(-1)]).toEqual([20, 20]);
  take(pointsOf(3, 1, 25, 19));
  expect(column(1, 'training_iteration')).toEqual(Array.from({ length: 25 }, (_, i) => i + 1));
  expect(runs.of(1).at[24]).toBe(10 + 0.5 * 25);
  take(pointsOf(4, 1, 10)); // neighbours have become one point
  expect([runs.of(1).at.length, runs.of(0).at.length]).toEqual([10, 20]);
  take(pointsOf(0, 2, 4));
  expect([0, 1, 2].map(run => runs.of(run).at.length)).toEqual([0, 0, 4]);
});

test('a metric that comes later has no values before', () => {
  const values = Float64Array.from([20, 21, 0.25, 0.5]);
  take(
    { data: pointsOf(3, 0, 20).data, buffers: [values.buffer] },
    { metrics: ['value_loss'], first: 20, points: 2, values: 4 }
  );
  expect(column(0, 'value_loss').slice(18)).toEqual([Number.NaN, Number.NaN, 0.25, 0.5]);
  expect(latest(runs.of(0), 'value_loss')).toBe(0.5);
  expect(latest(runs.of(0), 'no such')).toBeNaN();
});

test('points that do not follow, or are not all there, are refused', () => {
  expect(() => take(pointsOf(3, 1, 25, 21))).toThrow(ProtocolError);
  const { data, buffers } = pointsOf(3, 1, 25, 20);
  expect(() => take({ data, buffers }, { metrics: ['loss'] })).toThrow(ProtocolError);
  expect(() => take({ data, buffers: [] })).toThrow(ProtocolError);
});

test('runs that the kernel has forgotten are forgotten', () => {
  const { version } = runs;
  runs.list(runs.labels.slice(1));
  expect([runs.of(0).at.length, runs.of(1).at.length, runs.version > version]).toEqual([0, 20, true]);
});

test('runs are rewound by the time of their points', () => {
  const labels = runs.labels.map((label): LearningLabel => ({ ...label, ended: label.began + 9, state: 'failed' }));
  runs.list(labels);
  const then = runs.at(14.9);
  expect(then.labels.map(({ run, state, ended }) => [run, state, ended])).toEqual([
    [0, 'failed', 9],
    [1, 'running', Number.POSITIVE_INFINITY]
  ]);
  expect([then.of(0).at.length, then.of(1).at.length, then.of(2).at.length]).toEqual([20, 9, 0]);
  expect(latest(then.of(1), 'training_iteration')).toBe(9);
  expect(runs.of(1).at.length).toBe(20);
});

test('metrics come in the order of their interest, and counts are none', () => {
  expect(metricsOf(runs)).toEqual([
    'episode_return_mean',
    'episode_length_mean',
    'policy_loss',
    'entropy',
    'steps_per_s',
    'episode_return_min',
    'episode_return_max'
  ]);
  expect(metricFirst(runs, metricsOf(runs))).toBe(RETURN);
  begin(1, 1); // no episode has ended
  expect(metricFirst(runs, metricsOf(runs))).toBe('episode_length_mean');
  runs.list(runs.labels.map(label => ({ ...label, goal: 'entropy' })));
  expect(metricFirst(runs, metricsOf(runs))).toBe('entropy');
  expect([metricFirst(new LearningRuns(), []), overFirst(new LearningRuns()), overFirst(runs)]).toEqual([
    '',
    'iterations',
    'steps'
  ]);
});

test('a curve has the points that have both values, over steps, time or iterations', () => {
  const [label] = runs.labels;
  const of = (over: 'steps' | 'time' | 'iterations') => seriesOf(label!, runs.of(0), RETURN, over);
  expect(of('steps').y.length).toBe(19); // the first result has no episode
  expect([of('steps').x[0], of('iterations').x[0], of('time').x[0]]).toEqual([2 * 2048, 2, 1]);
  expect([of('steps').low.length, seriesOf(label!, runs.of(0), 'entropy', 'steps').low.length]).toEqual([19, 0]);
  expect([nearest(of('iterations'), 7.4), nearest(of('iterations'), 1e9)]).toEqual([5, 18]);
  const points = { at: Float64Array.of(12, 14), columns: new Map([['loss', Float64Array.of(3, 2)]]) };
  const bare = (over: 'steps' | 'time' | 'iterations') => [
    ...seriesOf({ ...label!, began: 10 }, points, 'loss', over).x
  ];
  expect([bare('steps'), bare('iterations'), bare('time')]).toEqual([[], [1, 2], [2, 4]]);
  expect(nearest(seriesOf(label!, points, 'no such', 'time'), 1)).toBe(NONE);
});

test('the table tells runs of the same title apart, and is searched by their settings', () => {
  const table = tableOf(runs, RETURN);
  const text = (run: number) => table.columns.map(({ text: of }) => of(run));
  expect(text(2)).toEqual([
    ...['3 · ES on CartPole-v1', 'running', '483.1', '40,960', '20', '2,500', '16\u00a0s'],
    'n_envs=8, lr=0.0009, seed=2'
  ]);
  expect(search(table, 'seed=1')).toEqual([1]);
  expect(search(table, 'diverged')).toEqual([0]);
  expect(table.hint!(0)).toBe('policy_loss is NaN in iteration 12');
});
