// The mark of each state. Marks differ by shape, not only by colour.

import { State } from '../protocol/messages';
import type { Theme } from '../theme/theme';
import type { Pen } from './pen';

const TURN = 2 * Math.PI;

/**
 * Draw a state's mark with radius `r` around (x, y). `phase`, 0 to 1, turns the marks of running and retrying tasks. An
 * inherited failure is an outline; on a filled box a mark is inverse.
 */
export function drawMark(
  pen: Pen,
  theme: Theme,
  state: State,
  x: number,
  y: number,
  r: number,
  phase: number,
  look: 'own' | 'inherited' | 'inverse' = 'own'
): void {
  const colour = look === 'inverse' ? theme.inverse : theme.states[state]!.solid;
  pen.fillStyle = colour;
  pen.strokeStyle = colour;
  pen.lineWidth = 0.22 * r;
  pen.lineCap = 'round';
  pen.lineJoin = 'round';
  pen.beginPath();
  switch (state) {
    case State.waiting: // an empty ring
      pen.arc(x, y, 0.8 * r, 0, TURN);
      pen.stroke();
      break;
    case State.queued: // a ring with a dot: loaded
      pen.arc(x, y, 0.8 * r, 0, TURN);
      pen.stroke();
      pen.beginPath();
      pen.arc(x, y, 0.34 * r, 0, TURN);
      pen.fill();
      break;
    case State.running: // an arc that turns, over its own track
      pen.lineWidth = 0.3 * r;
      pen.globalAlpha *= 0.25;
      pen.arc(x, y, 0.8 * r, 0, TURN);
      pen.stroke();
      pen.globalAlpha *= 4;
      pen.beginPath();
      pen.arc(x, y, 0.8 * r, phase * TURN - TURN / 4, phase * TURN + 0.1 * TURN);
      pen.stroke();
      break;
    case State.finished: // a disc with a tick
      pen.arc(x, y, r, 0, TURN);
      pen.fill();
      stroke(pen, theme.inverse, 0.24 * r, [
        x - 0.42 * r,
        y + 0.02 * r,
        x - 0.1 * r,
        y + 0.36 * r,
        x + 0.44 * r,
        y - 0.32 * r
      ]);
      break;
    case State.failed: // a square with a cross
      pen.roundRect(x - 0.92 * r, y - 0.92 * r, 1.84 * r, 1.84 * r, 0.36 * r);
      if (look === 'inherited') {
        pen.stroke();
      } else {
        pen.fill();
      }
      for (const side of [1, -1]) {
        const cross = look === 'own' ? theme.inverse : look === 'inverse' ? theme.states[state]!.solid : colour;
        stroke(pen, cross, 0.26 * r, [x - 0.36 * side * r, y - 0.36 * r, x + 0.36 * side * r, y + 0.36 * r]);
      }
      break;
    case State.cancelled: // a crossed-out ring
      pen.arc(x, y, 0.8 * r, 0, TURN);
      pen.stroke();
      stroke(pen, colour, 0.22 * r, [x - 0.56 * r, y + 0.56 * r, x + 0.56 * r, y - 0.56 * r]);
      break;
    case State.retrying: {
      // an arrow that goes round again
      const from = phase * TURN;
      pen.lineWidth = 0.26 * r;
      pen.arc(x, y, 0.72 * r, from, from + 0.72 * TURN);
      pen.stroke();
      const end = from + 0.78 * TURN;
      const tip = (angle: number, radius: number): [number, number] => [
        x + radius * Math.cos(angle),
        y + radius * Math.sin(angle)
      ];
      pen.beginPath();
      pen.moveTo(...tip(end + 0.06 * TURN, 0.72 * r));
      pen.lineTo(...tip(end - 0.05 * TURN, 1.15 * r));
      pen.lineTo(...tip(end - 0.05 * TURN, 0.3 * r));
      pen.closePath();
      pen.fill();
      break;
    }
  }
}

function stroke(pen: Pen, colour: string, width: number, points: number[]): void {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(points[0]!, points[1]!);
  for (let i = 2; i < points.length; i += 2) {
    pen.lineTo(points[i]!, points[i + 1]!);
  }
  pen.stroke();
}

/** A put object's mark: a diamond, which no state uses. */
export function drawObjectMark(pen: Pen, colour: string, x: number, y: number, r: number): void {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x, y - r);
  pen.lineTo(x + r, y);
  pen.lineTo(x, y + r);
  pen.lineTo(x - r, y);
  pen.closePath();
  pen.fill();
}
