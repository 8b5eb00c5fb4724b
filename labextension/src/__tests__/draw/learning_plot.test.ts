import { expect, test } from 'vitest';
import { learningPlot, runColour } from '../../draw/learning_plot';
import { NONE } from '../../model/rows';
import { axisOf } from '../../model/views/axis';
import type { Series } from '../../model/views/learning';
import { makeTheme } from '../../theme/theme';
import { recorder } from '../helpers';

const view = { width: 400, height: 200 };
const theme = makeTheme(() => '', false);
const NOTHING = new Float64Array(0);
const series = (run: number, x: number[], y: number[], spread = 0): Series => ({
  run,
  x: Float64Array.from(x),
  y: Float64Array.from(y),
  low: spread ? Float64Array.from(y, value => value - spread) : NOTHING,
  high: spread ? Float64Array.from(y, value => value + spread) : NOTHING
});
const [x, y] = [axisOf('x', 'Steps', [0, 100], [], false), axisOf('y', 'return', [0, 10], [], false)];
const none = { value: Number.NaN, text: '' };
const [low, high] = [series(0, [0, 50, 100], [0, 1, 2], 1), series(7, [0, 50], [5, 10])];
const count = (commands: readonly string[], name: string) =>
  commands.filter(each => each.split(' ')[0] === name).length;

test('each run has a curve of its own hue, and the one that stands out comes last', () => {
  const plot = learningPlot([low, high, series(3, [], [])], x, y, none, view);
  const painted = (marked: number) => {
    const { pen, commands } = recorder();
    plot.paint(pen, theme, marked);
    return commands;
  };
  const coloured = (marked: number) =>
    painted(marked)
      .filter(each => each.startsWith('strokeStyle'))
      .map(each => each.match(/#\w+/)![0]);
  expect(count(painted(NONE), 'stroke')).toBe(2);
  expect(painted(NONE).some(each => each.includes('Steps'))).toBe(true);
  expect(coloured(NONE)).toEqual([runColour(theme, 0), runColour(theme, 7)]);
  expect(coloured(0)).toEqual([runColour(theme, 7), runColour(theme, 0)]);
  expect(runColour(theme, 0)).not.toBe(runColour(theme, 1));
});

test('one run alone has a band, a goal has a line, one point is a dot', () => {
  const { pen, commands } = recorder();
  learningPlot([low], x, y, { value: 8, text: 'goal 8' }, view).paint(pen, theme, NONE);
  expect(commands.some(each => each.includes('goal 8'))).toBe(true);
  expect([count(commands, 'fill'), count(commands, 'stroke')]).toEqual([1, 2]);
  commands.length = 0;
  learningPlot([low, high], x, y, none, view).paint(pen, theme, NONE);
  expect(count(commands, 'fill')).toBe(0);
  commands.length = 0;
  learningPlot([series(0, [3], [4])], x, y, none, view).paint(pen, theme, NONE);
  expect([count(commands, 'arc'), count(commands, 'stroke')]).toEqual([1, 0]);
});

test('the pointer finds a run, and the values of all that come near', () => {
  const plot = learningPlot([low, high], x, y, none, view);
  const places = (px: number) => plot.placesAt(px).map(({ run, y: value }) => [run, value]);
  const [left, right, middle] = [52, 400 - 14, (52 + 400 - 14) / 2];
  expect(places(left)).toEqual([
    [7, 5],
    [0, 0]
  ]);
  expect(places(middle + 5)).toEqual([
    [7, 10],
    [0, 1]
  ]);
  expect(places(right)).toEqual([[0, 2]]); // the other one has ended before
  expect(plot.hit(middle, 20)).toBe(7);
  expect(plot.hit(right, 20)).toBe(NONE);
  const { pen, commands } = recorder();
  plot.aim(pen, theme, middle);
  expect(count(commands, 'arc')).toBe(4); // a dot and its halo for each
  commands.length = 0;
  learningPlot([], x, y, none, view).aim(pen, theme, middle);
  expect(commands).toEqual([]);
});
