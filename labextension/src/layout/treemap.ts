// A squarified treemap, after Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000): the area of each box is
// proportional to a size. Pure.

import type { Rect } from './metrics';

/** Divides a box into one box for each size; sizes descend. */
export function treemap(sizes: readonly number[], box: Rect): Rect[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const boxes: Rect[] = [];
  let rest = box;
  let left = total;
  for (let at = 0; at < sizes.length;) {
    const short = Math.min(rest.width, rest.height);
    const scale = left > 0 ? (rest.width * rest.height) / left : 0;
    let end = at + 1;
    let sum = sizes[at]!;
    // A row takes boxes as long as they become more like squares.
    while (
      end < sizes.length &&
      worst(sizes[at]!, sizes[end]!, sum + sizes[end]!, short, scale) <=
        worst(sizes[at]!, sizes[end - 1]!, sum, short, scale)
    ) {
      sum += sizes[end]!;
      end++;
    }
    rest = row(sizes.slice(at, end), sum, rest, short > 0 ? (sum * scale) / short : 0, boxes);
    left -= sum;
    at = end;
  }
  return boxes;
}

/** The worst ratio of sides in a row whose sizes go from `large` to `small`. */
function worst(large: number, small: number, sum: number, short: number, scale: number): number {
  const area = sum * scale;
  return Math.max((short * short * large * scale) / (area * area), (area * area) / (short * short * small * scale));
}

function row(sizes: readonly number[], sum: number, box: Rect, depth: number, boxes: Rect[]): Rect {
  const isUpright = box.width >= box.height; // the row stands at the left edge
  let along = 0;
  for (const size of sizes) {
    const length = sum > 0 ? (size / sum) * (isUpright ? box.height : box.width) : 0;
    boxes.push(
      isUpright
        ? { x: box.x, y: box.y + along, width: depth, height: length }
        : { x: box.x + along, y: box.y, width: length, height: depth }
    );
    along += length;
  }
  return isUpright
    ? { ...box, x: box.x + depth, width: Math.max(0, box.width - depth) }
    : { ...box, y: box.y + depth, height: Math.max(0, box.height - depth) };
}
