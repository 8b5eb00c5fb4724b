// What all plots of curves have in common: the box of the values, its axes, distances for the pointer. Pure.

import type { Size } from '../layout/camera';
import { type Axis, share, ticks, valueText } from '../model/views/axis';
import type { Theme } from '../theme/theme';
import { ellipsis, type Pen } from './pen';

const MARGIN = { left: 52, right: 14, top: 20, bottom: 26 };
export const FONT_PX = 10.5;

export interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export function boxOf(view: Size): Box {
  return {
    left: MARGIN.left,
    right: Math.max(MARGIN.left + 20, view.width - MARGIN.right),
    top: MARGIN.top,
    bottom: Math.max(MARGIN.top + 20, view.height - MARGIN.bottom)
  };
}

export const across = (box: Box, axis: Axis, value: number) => box.left + (box.right - box.left) * share(axis, value);
export const up = (box: Box, axis: Axis, value: number) => box.bottom - (box.bottom - box.top) * share(axis, value);

export function drawAxes(pen: Pen, theme: Theme, box: Box, x: Axis, y: Axis): void {
  pen.font = `400 ${FONT_PX}px ${theme.font}`;
  pen.lineWidth = 1;
  pen.textBaseline = 'middle';
  pen.textAlign = 'right';
  for (const value of ticks(y, Math.max(2, Math.round((box.bottom - box.top) / 44)))) {
    const at = Math.round(up(box, y, value)) + 0.5;
    pen.fillStyle = theme.grid;
    pen.fillRect(box.left, at - 0.5, box.right - box.left, 1);
    pen.fillStyle = theme.textSoft;
    pen.fillText(ellipsis(pen, valueText(y, value), box.left - 8), box.left - 6, at);
  }
  pen.textAlign = 'center';
  const room = Math.max(2, Math.round((box.right - box.left) / 72));
  for (const value of ticks(x, room)) {
    const at = across(box, x, value);
    pen.fillStyle = theme.grid;
    pen.fillRect(Math.round(at), box.top, 1, box.bottom - box.top);
    pen.fillStyle = theme.textSoft;
    pen.fillText(ellipsis(pen, valueText(x, value), (box.right - box.left) / room), at, box.bottom + 9);
  }
  pen.textAlign = 'right';
  pen.fillText(x.title, box.right, box.bottom + 20);
  pen.textAlign = 'left';
  pen.fillText(y.title, box.left, box.top - 11);
}

export function dot(pen: Pen, x: number, y: number, radius: number): void {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

/** Squared distance from a point to a stretch between two others. */
export function away(x: number, y: number, x0: number, y0: number, x1: number, y1: number): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  const t = length ? Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / length)) : 0;
  return (x - x0 - t * dx) ** 2 + (y - y0 - t * dy) ** 2;
}
