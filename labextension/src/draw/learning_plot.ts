// A plot of runs of learning: a curve each, over steps, time or iterations. Pure.

import type { Size } from '../layout/camera';
import { NONE } from '../model/rows';
import type { Axis } from '../model/views/axis';
import { nearest, type Series } from '../model/views/learning';
import { nodeColour, type Theme } from '../theme/theme';
import type { Pen } from './pen';
import { across, away, boxOf, dot, drawAxes, FONT_PX, up } from './plot_axes';

/** Tolerance of the pointer in pixels. */
const [NEAR_PX, ASIDE_PX] = [10, 24];
const LINE_PX = 1.8;
const DASHES = [5, 4];

/** A run's hue, wherever it is shown: those of other machines, blue first. */
export function runColour(theme: Theme, run: number): string {
  return nodeColour(theme, run + 1);
}

/** A curve's point. */
export interface Place {
  run: number;
  point: number;
  x: number;
  y: number;
}

export interface LearningPlot {
  /** Paint the axes and the curves; those of other runs than `marked` are faint, if there is such a run. */
  paint(pen: Pen, theme: Theme, marked: number): void;
  /** Paint a line across, and the point of each curve nearest to it. */
  aim(pen: Pen, theme: Theme, px: number): void;
  /** The point of each curve nearest to a place across, the highest first; of curves that come near. */
  placesAt(px: number): Place[];
  /** The run at a place; NONE if there is none. */
  hit(px: number, py: number): number;
}

/** `goal`: a value to reach, in words; NaN: there is none. */
export function learningPlot(
  series: readonly Series[],
  x: Axis,
  y: Axis,
  goal: { value: number; text: string },
  view: Size
): LearningPlot {
  const box = boxOf(view);
  const shown = series.filter(each => each.x.length);
  const at = (each: Series, i: number) => [across(box, x, each.x[i]!), up(box, y, each.y[i]!)] as const;
  const trace = (pen: Pen, each: Series) => {
    if (each.x.length === 1) {
      dot(pen, ...at(each, 0), 2.5);
      return;
    }
    pen.beginPath();
    each.x.forEach((_, i) => pen.lineTo(...at(each, i)));
    pen.stroke();
  };
  const band = (pen: Pen, each: Series) => {
    pen.beginPath();
    each.high.forEach((value, i) => pen.lineTo(across(box, x, each.x[i]!), up(box, y, value)));
    for (let i = each.low.length - 1; i >= 0; i--) {
      pen.lineTo(across(box, x, each.x[i]!), up(box, y, each.low[i]!));
    }
    pen.fill();
  };
  const placesAt = (px: number): Place[] => {
    const value = x.low + ((x.high - x.low) * (px - box.left)) / Math.max(1, box.right - box.left);
    return shown
      .map(each => {
        const point = nearest(each, value);
        return { run: each.run, point, x: each.x[point]!, y: each.y[point]! };
      })
      .filter(place => Math.abs(across(box, x, place.x) - px) <= ASIDE_PX)
      .sort((a, b) => b.y - a.y);
  };
  return {
    paint(pen, theme, marked) {
      drawAxes(pen, theme, box, x, y);
      pen.lineJoin = 'round';
      if (!Number.isNaN(goal.value)) {
        const height = up(box, y, goal.value);
        pen.strokeStyle = theme.textSoft;
        pen.fillStyle = theme.textSoft;
        pen.lineWidth = 1;
        pen.setLineDash(DASHES);
        pen.beginPath();
        pen.moveTo(box.left, height);
        pen.lineTo(box.right, height);
        pen.stroke();
        pen.setLineDash([]);
        pen.font = `400 ${FONT_PX}px ${theme.font}`;
        pen.textAlign = 'left';
        pen.fillText(goal.text, box.left + 4, height + (height > box.top + 14 ? -8 : 9));
      }
      const isMarked = shown.some(({ run }) => run === marked);
      const last = (run: number) => Number(run === marked);
      for (const each of [...shown].sort((a, b) => last(a.run) - last(b.run))) {
        const isFaint = isMarked && each.run !== marked;
        pen.strokeStyle = pen.fillStyle = runColour(theme, each.run);
        if (shown.length === 1 && each.high.length && each.low.length) {
          pen.globalAlpha = 0.14;
          band(pen, each);
        }
        pen.globalAlpha = isFaint ? 0.35 : 1;
        pen.lineWidth = each.run === marked ? LINE_PX + 0.8 : LINE_PX;
        trace(pen, each);
        pen.globalAlpha = 1;
      }
    },
    placesAt,
    aim(pen, theme, px) {
      const places = placesAt(px);
      if (!places.length) {
        return;
      }
      pen.fillStyle = theme.textSoft;
      pen.fillRect(Math.round(Math.min(box.right, Math.max(box.left, px))), box.top, 1, box.bottom - box.top);
      for (const place of places) {
        const [cx, cy] = [across(box, x, place.x), up(box, y, place.y)];
        pen.fillStyle = theme.background;
        dot(pen, cx, cy, 5);
        pen.fillStyle = runColour(theme, place.run);
        dot(pen, cx, cy, 3.5);
      }
    },
    hit(px, py) {
      let [found, least] = [NONE, NEAR_PX ** 2];
      for (const each of shown) {
        for (let i = 0; i < each.x.length; i++) {
          const distance = away(px, py, ...at(each, Math.max(0, i - 1)), ...at(each, i));
          if (distance <= least) {
            [found, least] = [each.run, distance];
          }
        }
      }
      return found;
    }
  };
}
