import { expect, test } from 'vitest';
import { search } from '../../../dev/search';
import { curvesPlot, drawSparkline, parallelPlot, scatterPlot } from '../../draw/trial_plots';
import { NONE } from '../../model/rows';
import { Trials } from '../../model/trials';
import { axisOf } from '../../model/views/axis';
import { bestOf, dimension } from '../../model/views/trials';
import { decodeTrialArrays, decodeTrials } from '../../protocol/validators';
import { makeTheme } from '../../theme/theme';
import { recorder } from '../helpers';

const view = { width: 400, height: 200 };
const theme = makeTheme(() => '', false);
const trials = new Trials();
for (const { data, buffers } of search(60, 20).slice(1)) {
  const header = decodeTrials(data);
  trials.apply(header, decodeTrialArrays(header, buffers));
}
const best = bestOf(trials, 'accuracy', 'max');
const values = axisOf(
  'y',
  'accuracy',
  trials.curves.flatMap(({ y }) => [...y])
);
const steps = axisOf('x', 'Iteration', [1, 20], [], false);
const count = (commands: readonly string[], name: string) =>
  commands.filter(each => each.split(' ')[0] === name).length;

test('curves are painted from the worst to the best, and found by the pointer', () => {
  const plot = curvesPlot(trials, steps, values, 'max', view);
  expect(plot.order).toHaveLength(60);
  expect(plot.order.at(-1)).toBe(best);
  expect(curvesPlot(trials, steps, values, 'min', view).order.at(-1)).not.toBe(best);
  const { pen, commands } = recorder();
  plot.axes(pen, theme);
  expect(commands.some(each => each.includes('Iteration'))).toBe(true);
  commands.length = 0;
  plot.paint(pen, theme, 50, 60);
  expect(count(commands, 'stroke')).toBe(10);
  commands.length = 0;
  plot.emphasise(pen, theme, best, 'best');
  const [, x, y] = commands
    .filter(each => each.startsWith('lineTo'))
    .at(-1)!
    .split(' ');
  expect(plot.hit(Number(x), Number(y))).toBe(best);
  expect(plot.hit(Number(x), 198)).toBe(NONE);
});

test('a scatter plot has the trials that have both values', () => {
  const [lr, accuracy] = [dimension(trials, 'parameter lr'), dimension(trials, 'metric accuracy')];
  const plot = scatterPlot(trials, lr, accuracy, 'accuracy', 'max', view);
  expect(plot.order).toHaveLength(59); // one waits
  const { pen, commands } = recorder();
  plot.paint(pen, theme, 0, plot.order.length);
  expect(count(commands, 'arc')).toBe(59);
  const [, x, y] = commands
    .filter(each => each.startsWith('arc'))
    .at(-1)!
    .split(' ');
  expect(plot.hit(Number(x), Number(y))).toBe(best);
  commands.length = 0;
  plot.emphasise(pen, theme, 59, 'selected');
  const waiting = trials.all().find(trial => Number.isNaN(accuracy.values[trial]!))!;
  commands.length = 0;
  plot.emphasise(pen, theme, waiting, 'selected');
  expect(commands).toEqual([]);
});

test('parallel coordinates leave a gap where a trial has no value', () => {
  const columns = ['parameter lr', 'parameter optimiser', 'metric accuracy'].map(key => dimension(trials, key));
  const plot = parallelPlot(trials, columns, 'accuracy', 'max', view);
  const { pen, commands } = recorder();
  plot.axes(pen, theme);
  plot.over!(pen, theme);
  expect(commands.filter(each => each.startsWith('fillText')).join()).toContain('rmsprop');
  commands.length = 0;
  plot.emphasise(pen, theme, best, 'hovered');
  expect(count(commands, 'moveTo')).toBe(2);
  expect(count(commands, 'lineTo')).toBe(4);
  const [, x, y] = commands.find(each => each.startsWith('moveTo'))!.split(' ');
  expect(plot.hit(Number(x), Number(y))).not.toBe(NONE);
  commands.length = 0;
  const waiting = plot.order[0]!;
  plot.emphasise(pen, theme, waiting, 'hovered');
  expect(count(commands, 'lineTo')).toBe(2);
  expect(parallelPlot(trials, columns.slice(0, 1), 'accuracy', 'max', view).hit(30, 100)).toBe(NONE);
});

test('a sparkline is a line with its latest value, and nothing before the first', () => {
  const { pen, commands } = recorder();
  drawSparkline(pen, theme, trials, best, values, { width: 96, height: 22 });
  expect(count(commands, 'lineTo')).toBe(20);
  expect(count(commands, 'arc')).toBe(1);
  commands.length = 0;
  drawSparkline(pen, theme, trials, 56, values, { width: 96, height: 22 });
  expect(count(commands, 'clearRect')).toBe(1);
});
