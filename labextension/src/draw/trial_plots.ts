// Plots of an experiment's trials: curves, parallel coordinates, a scatter plot. Pure.
//
// A plot paints its trials one by one, so that thousands can be painted over several frames, and knows which one is
// at a place.

import type { Size } from '../layout/camera';
import { NONE } from '../model/rows';
import { NO_CURVE, type Trials } from '../model/trials';
import { type Axis, share, ticks, valueText } from '../model/views/axis';
import { stateOf } from '../model/views/trials';
import { type Mode, State } from '../protocol/messages';
import { mix, type Theme } from '../theme/theme';
import { ellipsis, type Pen } from './pen';
import { across, away, boxOf, dot, drawAxes, FONT_PX, up } from './plot_axes';

/** Of parallel coordinates. */
const [NAMES_Y, AXES_TOP] = [14, 32];
/** Tolerance of the pointer in pixels. */
const NEAR_PX = 10;
const DOT_PX = 3.5;
/** Shades from the worst to the best. */
const N_SHADES = 24;

export type Emphasis = 'best' | 'hovered' | 'selected';

export interface Plot {
  /** The trials that it shows, in the order in which they are painted: the best ones last. */
  readonly order: readonly number[];
  /** Paint some of them. */
  paint(pen: Pen, theme: Theme, from: number, to: number): void;
  /** What lies below the trials: axes and their marks. */
  axes(pen: Pen, theme: Theme): void;
  /** What lies above them. */
  over?(pen: Pen, theme: Theme): void;
  /** Paint one trial so that it stands out. */
  emphasise(pen: Pen, theme: Theme, trial: number, how: Emphasis): void;
  /** The trial at a place; NONE if there is none. */
  hit(x: number, y: number): number;
}

/** A column by trial, and the axis on which it is drawn. */
export interface Dimension {
  values: ArrayLike<number>;
  axis: Axis;
}

/** Trials from the worst to the best, so that the best ones are on top. */
function worstFirst(trials: Trials, metric: string, mode: Mode): number[] {
  const column = trials.metricOf(metric);
  const sign = mode === 'min' ? -1 : 1;
  const rank = (trial: number) => (Number.isNaN(column[trial]!) ? Number.NEGATIVE_INFINITY : sign * column[trial]!);
  return trials.all().sort((a, b) => rank(a) - rank(b) || b - a);
}

/** The colour of each trial, from the worst to the best by rank: outliers do not take all shades. */
function shades(
  order: readonly number[],
  values: ArrayLike<number>
): (worst: string, best: string) => (position: number) => string {
  const first = order.findIndex(trial => !Number.isNaN(values[trial]!));
  const n = first < 0 ? 0 : order.length - first;
  return (worst, best) => {
    const colours = Array.from({ length: N_SHADES }, (_, i) => mix(worst, best, i / (N_SHADES - 1)));
    return position => colours[n < 2 ? N_SHADES - 1 : Math.max(0, Math.floor(((position - first) / n) * N_SHADES))]!;
  };
}

/** How each kind of emphasis looks: colour, width of a line. */
function emphasis(theme: Theme, how: Emphasis): { colour: string; width: number } {
  switch (how) {
    case 'best':
      return { colour: theme.states[State.finished]!.solid, width: 2.4 };
    case 'hovered':
      return { colour: theme.text, width: 1.6 };
    case 'selected':
      return { colour: theme.text, width: 2.4 };
  }
}

/** The values of all trials over the iterations. */
export function curvesPlot(trials: Trials, x: Axis, y: Axis, mode: Mode, view: Size): Plot {
  const box = boxOf(view);
  const order = worstFirst(trials, trials.metric, mode);
  const shadesOf = shades(order, trials.metricOf(trials.metric));
  const trace = (pen: Pen, trial: number) => {
    const { x: xs, y: ys } = trials.curves[trial] ?? NO_CURVE;
    if (xs.length === 1) {
      dot(pen, across(box, x, xs[0]!), up(box, y, ys[0]!), 1.5);
      return;
    }
    pen.beginPath();
    for (let i = 0; i < xs.length; i++) {
      pen.lineTo(across(box, x, xs[i]!), up(box, y, ys[i]!));
    }
    pen.stroke();
  };
  return {
    order,
    axes: (pen, theme) => drawAxes(pen, theme, box, x, y),
    paint(pen, theme, from, to) {
      pen.lineWidth = 1;
      pen.lineJoin = 'round';
      pen.globalAlpha = Math.max(0.16, Math.min(0.75, 24 / Math.sqrt(1 + 8 * order.length)));
      const shade = shadesOf(theme.worst, theme.states[State.finished]!.solid);
      for (let i = from; i < to; i++) {
        const state = stateOf(trials, order[i]!);
        const colour = state === State.finished ? shade(i) : theme.states[state]!.solid;
        pen.strokeStyle = colour;
        pen.fillStyle = colour;
        trace(pen, order[i]!);
      }
      pen.globalAlpha = 1;
    },
    emphasise(pen, theme, trial, how) {
      const { colour, width } = emphasis(theme, how);
      pen.lineJoin = 'round';
      pen.strokeStyle = theme.background;
      pen.lineWidth = width + 2;
      pen.fillStyle = colour;
      trace(pen, trial);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      trace(pen, trial);
    },
    hit(px, py) {
      const width = Math.max(1, box.right - box.left);
      const valueAt = (at: number) => x.low + ((x.high - x.low) * (at - box.left)) / width;
      const [from, to] = [valueAt(px - NEAR_PX), valueAt(px + NEAR_PX)];
      let [found, least] = [NONE, NEAR_PX ** 2];
      for (const trial of order) {
        const { x: xs, y: ys } = trials.curves[trial] ?? NO_CURVE;
        for (let i = firstFrom(xs, from); i < xs.length; i++) {
          const before = Math.max(0, i - 1);
          if (xs[before]! > to) {
            break;
          }
          const [x0, x1] = [across(box, x, xs[before]!), across(box, x, xs[i]!)];
          const distance = away(px, py, x0, up(box, y, ys[before]!), x1, up(box, y, ys[i]!));
          if (distance <= least) {
            [found, least] = [trial, distance];
          }
        }
      }
      return found;
    }
  };
}

/** The first of some ascending numbers that is not below a value. */
function firstFrom(numbers: Float32Array, value: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Two columns against each other; the shade says how good a trial is. */
export function scatterPlot(trials: Trials, x: Dimension, y: Dimension, metric: string, mode: Mode, view: Size): Plot {
  const box = boxOf(view);
  const order = worstFirst(trials, metric, mode).filter(
    trial => Number.isFinite(x.values[trial]!) && Number.isFinite(y.values[trial]!)
  );
  const shadesOf = shades(order, trials.metricOf(metric));
  const placeOf = (trial: number) =>
    [across(box, x.axis, x.values[trial]!), up(box, y.axis, y.values[trial]!)] as const;
  return {
    order,
    axes: (pen, theme) => drawAxes(pen, theme, box, x.axis, y.axis),
    paint(pen, theme, from, to) {
      const shade = shadesOf(theme.worst, theme.best);
      pen.globalAlpha = order.length > 500 ? 0.6 : 0.9;
      for (let i = from; i < to; i++) {
        pen.fillStyle = shade(i);
        dot(pen, ...placeOf(order[i]!), DOT_PX);
      }
      pen.globalAlpha = 1;
    },
    emphasise(pen, theme, trial, how) {
      const { colour, width } = emphasis(theme, how);
      const [px, py] = placeOf(trial);
      if (Number.isNaN(px + py)) {
        return;
      }
      pen.fillStyle = theme.background;
      dot(pen, px, py, DOT_PX + 1.5 + width);
      pen.fillStyle = colour;
      dot(pen, px, py, DOT_PX + width);
    },
    hit(px, py) {
      let [found, least] = [NONE, NEAR_PX ** 2];
      for (const trial of order) {
        const [x0, y0] = placeOf(trial);
        const distance = (x0 - px) ** 2 + (y0 - py) ** 2;
        if (distance <= least) {
          [found, least] = [trial, distance];
        }
      }
      return found;
    }
  };
}

/** A line for each trial across several columns; the shade says how good it is. */
export function parallelPlot(
  trials: Trials,
  columns: readonly Dimension[],
  metric: string,
  mode: Mode,
  view: Size
): Plot {
  const top = AXES_TOP;
  const bottom = Math.max(top + 20, view.height - 14);
  const [first, last] = [34, Math.max(60, view.width - 34)];
  const at = (k: number) => (columns.length < 2 ? first : first + ((last - first) * k) / (columns.length - 1));
  const step = columns.length < 2 ? last - first : (last - first) / (columns.length - 1);
  const height = ({ axis, values }: Dimension, trial: number) => bottom - (bottom - top) * share(axis, values[trial]!);
  const order = worstFirst(trials, metric, mode);
  const shadesOf = shades(order, trials.metricOf(metric));
  const trace = (pen: Pen, trial: number) => {
    pen.beginPath();
    let isDown = false; // a column without a value is a gap
    columns.forEach((column, k) => {
      const y = height(column, trial);
      if (Number.isNaN(y)) {
        isDown = false;
      } else if (isDown) {
        pen.lineTo(at(k), y);
      } else {
        pen.moveTo(at(k), y);
        isDown = true;
      }
    });
    pen.stroke();
  };
  return {
    order,
    axes(pen, theme) {
      pen.lineWidth = 1;
      columns.forEach(({ axis }, k) => {
        const x = at(k);
        pen.fillStyle = theme.border;
        pen.fillRect(Math.round(x), top, 1, bottom - top);
        pen.textBaseline = 'middle';
        pen.font = `500 ${FONT_PX}px ${theme.font}`;
        pen.fillStyle = theme.text;
        const edge = k === 0 ? 'left' : k === columns.length - 1 ? 'right' : 'center';
        const place = edge === 'left' ? 6 : edge === 'right' ? view.width - 6 : x;
        pen.textAlign = edge;
        pen.fillText(ellipsis(pen, axis.title, Math.max(24, step - 10)), place, NAMES_Y);
      });
    },
    paint(pen, theme, from, to) {
      const shade = shadesOf(theme.worst, theme.best);
      pen.lineWidth = 1;
      pen.lineJoin = 'round';
      pen.globalAlpha = Math.max(0.12, Math.min(0.8, 24 / Math.sqrt(1 + 8 * order.length)));
      for (let i = from; i < to; i++) {
        pen.strokeStyle = shade(i);
        trace(pen, order[i]!);
      }
      pen.globalAlpha = 1;
    },
    over(pen, theme) {
      pen.font = `400 ${FONT_PX}px ${theme.font}`;
      pen.textBaseline = 'middle';
      columns.forEach(({ axis }, k) => {
        const isLast = k === columns.length - 1 && k > 0;
        const x = isLast ? at(k) - 5 : at(k) + 5;
        pen.textAlign = isLast ? 'right' : 'left';
        for (const value of ticks(axis, Math.max(2, Math.round((bottom - top) / 40)))) {
          const y = bottom - (bottom - top) * share(axis, value);
          const text = ellipsis(pen, valueText(axis, value), Math.max(20, step - 16));
          const { width } = pen.measureText(text);
          pen.fillStyle = theme.background;
          pen.globalAlpha = 0.75;
          pen.fillRect((isLast ? x - width : x) - 2, y - 7, width + 4, 14);
          pen.globalAlpha = 1;
          pen.fillStyle = theme.textSoft;
          pen.fillText(text, x, y);
        }
      });
    },
    emphasise(pen, theme, trial, how) {
      const { colour, width } = emphasis(theme, how);
      pen.lineJoin = 'round';
      pen.strokeStyle = theme.background;
      pen.lineWidth = width + 2;
      trace(pen, trial);
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      trace(pen, trial);
    },
    hit(px, py) {
      const k = Math.min(columns.length - 2, Math.max(0, Math.floor((px - first) / step)));
      const [one, other] = [columns[k], columns[k + 1]];
      if (!one || !other) {
        return NONE;
      }
      let [found, least] = [NONE, NEAR_PX ** 2];
      for (const trial of order) {
        const distance = away(px, py, at(k), height(one, trial), at(k + 1), height(other, trial));
        if (distance <= least) {
          [found, least] = [trial, distance];
        }
      }
      return found;
    }
  };
}

/** A trial's curve in a row of the table. */
export function drawSparkline(pen: Pen, theme: Theme, trials: Trials, trial: number, y: Axis, view: Size): void {
  pen.clearRect(0, 0, view.width, view.height);
  const { x: xs, y: ys } = trials.curves[trial] ?? NO_CURVE;
  const n = xs.length;
  if (!n) {
    return;
  }
  const [from, to] = [xs[0]!, xs[n - 1]!];
  const place = (i: number) => 2 + ((view.width - 4) * (xs[i]! - from)) / Math.max(1e-9, to - from);
  const height = (i: number) => view.height - 3 - (view.height - 6) * share(y, ys[i]!);
  const colour = theme.states[stateOf(trials, trial)]!.solid;
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.lineWidth = 1.25;
  pen.lineJoin = 'round';
  if (n > 1) {
    pen.beginPath();
    for (let i = 0; i < n; i++) {
      pen.lineTo(place(i), height(i));
    }
    pen.stroke();
  }
  dot(pen, n > 1 ? place(n - 1) : 3, height(n - 1), 1.8);
}
