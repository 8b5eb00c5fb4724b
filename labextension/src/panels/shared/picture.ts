// The graph's canvas as the rest of the panel knows it.

import type { Wheel } from './canvas';

export type Show = 'auto' | 'tasks' | 'groups' | 'machines';

export type Picked = { kind: 'task' | 'group'; index: number };

/** What the panel may ask of the picture. */
export interface Picture {
  readonly element: HTMLElement;
  readonly isFollowing: boolean;
  setShow(show: Show): void;
  /** Show the rows of one group, in the picture of all rows. */
  expand(group: number): void;
  fit(): void;
  follow(isFollowing: boolean): void;
  zoom(factor: number): void;
  /** Something lies over the right or the lower part of it. */
  cover(right: number, bottom: number): void;
}

export interface CanvasOptions {
  wheel: Wheel;
  /** In a cell: flows as the panel beside it does, and shows everything once nothing is under way. */
  isInline?: boolean;
}
