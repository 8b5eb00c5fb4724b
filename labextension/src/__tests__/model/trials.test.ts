import { describe, expect, test } from 'vitest';
import { search as searchMessages, type Told } from '../../../dev/search';
import { Trials } from '../../model/trials';
import { axisOf, numberText, share, ticks, valueText } from '../../model/views/axis';
import { sorted } from '../../model/views/table';
import {
  bestOf,
  dimension,
  dimensions,
  iterationsPerSecond,
  metricsOf,
  secondsOf,
  settingText,
  tableOf,
  throughput,
  varying
} from '../../model/views/trials';
import { ProtocolError } from '../../protocol/errors';
import { TrialState } from '../../protocol/messages';
import { decodeTrialArrays, decodeTrials } from '../../protocol/validators';

function take(trials: Trials, { data, buffers }: Told, change: Record<string, unknown> = {}): void {
  const header = decodeTrials({ ...data, ...change });
  trials.apply(header, decodeTrialArrays(header, buffers));
}

function made(n: number, length = 12): Trials {
  const trials = new Trials();
  searchMessages(n, length)
    .slice(1)
    .forEach(told => take(trials, told));
  return trials;
}

test('messages make columns, whole trials replace what was there', () => {
  const trials = made(1200);
  expect(trials.n).toBe(1200);
  expect(trials.all()).toHaveLength(1200);
  expect(trials.behind).toBe(0);
  expect(trials.state[1199]).toBe(TrialState.running);
  expect(trials.curves[2]!.y).toHaveLength(trials.iteration[2]!);
  expect(trials.metricOf('accuracy')[2]).toBeCloseTo(trials.curves[2]!.y.at(-1)!, 5);
  expect(trials.errors.get(5)).toContain('ValueError');
  const [, first] = searchMessages(3, 4);
  take(trials, first!, { n: 7, texts: [] });
  expect(trials.n).toBe(1200);
  expect(trials.curves[0]!.y.length).toBeLessThanOrEqual(4);
  take(trials, first!);
  expect(trials.all()).toHaveLength(3);
});

test('trials that have not come yet are not known, and curves beyond the message are refused', () => {
  const [, first, second] = searchMessages(900, 4);
  const trials = new Trials();
  take(trials, first!);
  expect(trials.behind).toBe(400);
  take(trials, { ...second!, buffers: second!.buffers }, {});
  const { data, buffers } = first!;
  const long = [...buffers];
  long[6] = Uint32Array.from({ length: 500 }, () => 1000).buffer;
  expect(() => take(new Trials(), { data, buffers: long })).toThrow(ProtocolError);
  long[0] = Uint32Array.from({ length: 500 }, () => 4e9).buffer;
  expect(() => take(new Trials(), { data, buffers: long })).toThrow('there is no trial');
});

test('a moment of the past has the trials that were there, as far as they had come', () => {
  const trials = made(20);
  const moment = trials.started[4]! + 0.025; // 0.425: one result of trial 4
  const then = trials.at(moment);
  expect(then.all()).toEqual([0, 1, 2, 3, 4]);
  expect(then.state[4]).toBe(TrialState.running);
  expect(then.curves[4]!.y).toHaveLength(1);
  expect(then.iteration[4]).toBe(1);
  expect(then.metricOf('accuracy')[4]).toBeCloseTo(trials.curves[4]!.y[0]!, 5);
  expect(then.metricOf('loss')[4]).toBeNaN();
  expect(then.state[1]).toBe(trials.state[1]);
  expect(then.metricOf('loss')[1]).toBe(trials.metricOf('loss')[1]);
  expect(trials.at(1e9).state).toEqual(trials.state);
});

test('the table has parameters that differ and is sorted by any column', () => {
  const trials = made(40);
  const table = tableOf(trials, 'accuracy', 9);
  expect(table.columns.map(({ title }) => title)).toEqual([
    ...['Trial', 'State', 'accuracy', 'Curve', 'Iteration', 'Time', 'lr', 'depth', 'optimiser', 'loss']
  ]);
  const best = bestOf(trials, 'accuracy', 'max');
  expect(sorted(table.items, table.columns, { key: 'metric accuracy', isDescending: true })[0]).toBe(best);
  const byWord = sorted(table.items, table.columns, { key: 'parameter optimiser', isDescending: false });
  expect(settingText(trials, 'optimiser', byWord[0]!)).toBe('adam');
  expect(table.hint!(5)).toContain('ValueError');
  expect(bestOf(trials, 'nothing', 'max')).toBe(-1);
  expect(secondsOf(trials, 0, 9)).toBeCloseTo(0.02 * trials.iteration[0]!);
});

test('a trial reports so many iterations each second, by its last reports', () => {
  const trials = made(4);
  const curve = (at: number[], x: number[]) => ({
    at: Float32Array.from(at),
    x: Float32Array.from(x),
    y: Float32Array.from(x)
  });
  trials.state.fill(TrialState.running);
  trials.curves = [
    curve([0, 30, 40, 50], [1, 100, 130, 150]), // the last ten seconds or more
    curve([0, 90, 150], [1, 2, 3]), // slower than that: the last two
    curve([5], [1]),
    curve([], [])
  ];
  expect(iterationsPerSecond(trials, 0)).toBe(2);
  expect(iterationsPerSecond(trials, 1)).toBeCloseTo(1 / 60);
  expect(iterationsPerSecond(trials, 2)).toBeNaN();
  expect(iterationsPerSecond(trials, 3)).toBeNaN();
  expect(throughput(trials)).toBeCloseTo(2 + 1 / 60);
  trials.state[0] = TrialState.ended;
  expect(throughput(trials)).toBeCloseTo(1 / 60);
});

test('what is the same for all trials is no dimension', () => {
  const trials = made(30);
  trials.parameters.set('depth', new Float64Array(trials.n).fill(2));
  expect(varying(trials)).toEqual(['lr', 'optimiser']);
  expect(metricsOf(trials, 'loss')[0]).toBe('loss');
  expect(dimensions(trials, 'loss').map(({ key }) => key)[2]).toBe('metric loss');
  const { axis } = dimension(trials, 'parameter lr');
  expect(axis.isLog).toBe(true);
  expect(dimension(trials, 'parameter optimiser').axis.words).toEqual(['adam', 'sgd', 'rmsprop']);
  expect(dimension(trials, 'metric nothing').axis).toMatchObject({ low: 0, high: 1 });
});

describe('axes', () => {
  test('are logarithmic where values are positive and far apart, or when asked', () => {
    expect(axisOf('', '', [0.001, 10]).isLog).toBe(true);
    expect(axisOf('', '', [1, 10]).isLog).toBe(false);
    expect(axisOf('', '', [1, 10], [], true).isLog).toBe(true);
    expect(axisOf('', '', [-1, 10], [], true).isLog).toBe(false);
    expect(axisOf('', '', [Number.NaN, Number.POSITIVE_INFINITY])).toMatchObject({ low: 0, high: 1 });
    expect(axisOf('', '', [3, 3])).toMatchObject({ low: 1.5, high: 4.5 });
  });

  test('place values and marks', () => {
    const log = axisOf('', '', [0.01, 100]);
    expect(share(log, 1)).toBeCloseTo(0.5);
    expect(share(log, -1)).toBeNaN();
    expect(ticks(log, 5)).toEqual([0.01, 0.1, 1, 10, 100]);
    expect(ticks(axisOf('', '', [0.1, 0.97]), 4)).toEqual([0.2, 0.4, 0.6, 0.8]);
    expect(ticks(axisOf('', '', [0], ['a', 'b', 'c']), 2)).toEqual([0, 2]);
    expect(valueText({ words: ['a', 'b'] }, 1)).toBe('b');
  });

  test.each([
    [12, '12'],
    [-3, '−3'],
    [0.123456, '0.1235'],
    [0.000123, '1.23e−4'],
    [2_500_000.5, '2.5e6'],
    [Number.NaN, ''],
    [Number.NEGATIVE_INFINITY, '−∞']
  ])('%s reads %s', (value, text) => expect(numberText(value)).toBe(text));
});
