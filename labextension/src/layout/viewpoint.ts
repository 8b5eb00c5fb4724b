// The view of the graph and its movement: by the reader's hand, or by itself while it follows the work or keeps
// everything in view.

import {
  approach,
  type Camera,
  fit,
  fitZoom,
  follow,
  inner,
  type Insets,
  isClose,
  outer,
  panBy,
  reveal
} from './camera';
import type { Direction, Rect } from './metrics';

const MARGIN = 24;
/** Tabs and buttons float over the upper edge. */
const TOOLS_PX = 40;
/** Following keeps names readable. */
const LEGIBLE_ZOOM = 0.8;
/** Time in which a distance shrinks to about a third. */
export const EASE_MS = 110;

/** 'free': where the reader put it. */
export type Aim = 'follow' | 'fit' | 'free';

/** What there is to see. */
export interface Sight {
  bounds: Rect;
  direction: Direction;
  /** Following shows everything: the work is over, or there are too many boxes for names to be readable. */
  isOverview: boolean;
  /** Where along the flow work goes on. */
  front(): number;
}

export class Viewpoint {
  camera: Camera = { x: 0, y: 0, zoom: 1 };
  aim: Aim = 'follow';
  size = { width: 0, height: 0 };
  private insets: Insets = { top: TOOLS_PX, right: 0, bottom: 0, left: 0 };
  /** The destination of a moving camera. */
  private goal: Camera | null = null;
  /** Moves towards the goal ahead of a following camera, so that the camera starts gently when the goal changes. */
  private ahead: Camera | null = null;
  private flow: Direction = 'down';

  /**
   * Down in high panels, right in wide ones. In between it stays, so that dragging a splitter does not make it flip.
   */
  direction(): Direction {
    const { width, height } = this.size;
    const isHigh = height > width * (this.flow === 'down' ? 0.72 : 0.85);
    this.flow = isHigh ? 'down' : 'right';
    return this.flow;
  }

  /** Something covers the lower or the right part. */
  cover(right: number, bottom: number): void {
    this.insets = { ...this.insets, right, bottom };
  }

  /** Where the camera is, or will be after its movement. */
  get target(): Camera {
    return this.goal ?? this.camera;
  }

  /** Go there, and stay. */
  moveTo(goal: Camera): void {
    this.aim = 'free';
    this.goal = goal;
  }

  /** Be there at once. */
  jumpTo(camera: Camera): void {
    this.moveTo(camera);
    this.camera = camera;
    this.goal = null;
  }

  /** Jump to where following or fitting leads: the picture is another one. */
  begin(sight: Sight | null): void {
    this.goal = this.ahead = null;
    this.camera = this.aimed(sight) ?? this.camera;
  }

  /** Move until a box is in view, not farther. */
  reveal(box: Rect): void {
    const camera = outer(
      reveal(outer(this.camera, this.insets, -1), box, inner(this.size, this.insets), MARGIN),
      this.insets
    );
    if (!isClose(camera, this.camera)) {
      this.moveTo(camera);
    }
  }

  /** Let time pass; true while the camera is on its way. */
  step(sight: Sight | null, elapsedMs: number, isMoving: boolean): boolean {
    const goal = this.aim === 'free' ? this.goal : this.aimed(sight);
    if (!goal) {
      return false;
    }
    const isAhead = this.aim !== 'free' && this.ahead !== null && !isClose(this.ahead, goal);
    if (!isMoving || (!isAhead && isClose(this.camera, goal))) {
      this.camera = goal;
      this.goal = this.ahead = null;
      return false;
    }
    const share = 1 - Math.exp(-elapsedMs / EASE_MS);
    if (this.aim === 'free') {
      this.ahead = null;
      this.camera = approach(this.camera, goal, this.size, share);
    } else {
      this.ahead = approach(this.ahead ?? this.camera, goal, this.size, share);
      this.camera = approach(this.camera, this.ahead, this.size, share);
    }
    return true;
  }

  private aimed(sight: Sight | null): Camera | null {
    if (this.aim === 'free' || !sight) {
      return null;
    }
    const { bounds, direction } = sight;
    const view = inner(this.size, this.insets);
    if (this.aim === 'fit' || sight.isOverview) {
      return this.centred(fit(bounds, view, MARGIN), bounds, view.height);
    }
    // Names that can be read, as long as the picture's breadth fits.
    const breadth = direction === 'right' ? { ...bounds, width: 0 } : { ...bounds, height: 0 };
    const legible = Math.min(LEGIBLE_ZOOM, fitZoom(breadth, view, MARGIN));
    return this.centred(follow(bounds, view, MARGIN, legible, sight.front(), direction), bounds, view.height);
  }

  /** The camera for the whole view. A small picture is centred in the view, not in the part below the tools. */
  private centred(camera: Camera, bounds: Rect, height: number): Camera {
    const slack = (height - bounds.height * camera.zoom) / 2 - MARGIN;
    return outer(panBy(camera, 0, -Math.min(TOOLS_PX / 2, Math.max(0, slack))), this.insets);
  }
}
