// A machine's load as curves over the time of the session. Pure.

import type { Sample } from '../../protocol/messages';
import { placeOf, type Stretch } from '../stretches';

export interface Curve {
  line: string;
  area: string;
}

/** Samples farther apart than so many of the usual steps have nothing known between them. */
const GAP = 3.5;

/**
 * A curve in a box of `width` by `height` for values up to `top`. It has a gap where nothing was recorded, as between
 * two stretches of work.
 */
export function curveOf(
  samples: readonly Sample[],
  stretches: readonly Stretch[],
  value: (sample: Sample) => number,
  top: number,
  width: number,
  height: number
): Curve {
  const parts: [number, number][][] = [];
  const usual = usualStep(samples);
  let before: Sample | null = null;
  let stretch = 0;
  for (const sample of samples) {
    const isNext = stretch < stretches.length && stretches[stretch]!.from <= sample.at;
    while (stretch < stretches.length && stretches[stretch]!.from <= sample.at) {
      stretch++;
    }
    if (!before || isNext || sample.at - before.at > GAP * usual) {
      parts.push([]);
    }
    before = sample;
    const share = top > 0 ? Math.min(1, Math.max(0, value(sample) / top)) : 0;
    parts[parts.length - 1]!.push([width * placeOf(stretches, sample.at), height - share * (height - 2) - 1]);
  }
  const show = (points: [number, number][]) => points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' L');
  return {
    // One sample alone is a point, which a line of no length with round ends shows.
    line: parts.map(points => `M${show(points.length === 1 ? [points[0]!, points[0]!] : points)}`).join(' '),
    area: parts
      .filter(points => points.length > 1)
      .map(points => {
        const [from, to] = [points[0]![0], points[points.length - 1]![0]];
        return `M${from.toFixed(1)},${height} L${show(points)} L${to.toFixed(1)},${height} Z`;
      })
      .join(' ')
  };
}

/** The median of the times between samples: old ones are farther apart. */
function usualStep(samples: readonly Sample[]): number {
  const steps = samples.slice(1).map((sample, i) => sample.at - samples[i]!.at);
  steps.sort((a, b) => a - b);
  return Math.max(1, steps[steps.length >> 1] ?? 1);
}
