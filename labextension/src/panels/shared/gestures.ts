// Translates pointer, wheel and key events on a canvas into gestures.

import type { Direction } from '../../layout/metrics';

const CLICK_PX = 4;
const LINE_PX = 18;
/** Zoom per pixel of the wheel; a pinch on a touchpad arrives as a wheel with Ctrl and small steps. */
const WHEEL_ZOOM = 0.0018;
const PINCH_ZOOM = 0.01;
const KEY_ZOOM = 1.4;

/** The handlers of gestures. Coordinates are pixels of the element. */
export interface Gestures {
  hover(x: number, y: number): void;
  leave(): void;
  click(x: number, y: number): void;
  open(x: number, y: number): void;
  pan(dx: number, dy: number): void;
  /** A drag with Shift from one place across to another; without this handler it pans. */
  brush?(fromX: number, toX: number): void;
  zoomAt(x: number, y: number, factor: number): void;
  zoom(factor: number): void;
  walk(axis: Direction, step: 1 | -1): void;
  openChosen(): void;
  dismiss(): void;
  fit(): void;
  follow(): void;
  toggleGroups(): void;
}

/** These listeners cannot be passive: they prevent what the browser would do, such as scrolling. */
const ACTIVE: ReadonlySet<string> = new Set(['wheel', 'keydown']);

/** Listen on an element until the signal; `ownsWheel` says whether the canvas, not the page, takes a wheel event. */
export function listen(
  element: HTMLElement,
  gestures: Gestures,
  ownsWheel: (event: WheelEvent) => boolean,
  signal: AbortSignal
): void {
  const on = <K extends keyof HTMLElementEventMap>(type: K, handler: (event: HTMLElementEventMap[K]) => void) =>
    element.addEventListener(type, handler, { signal, passive: !ACTIVE.has(type) });
  let drag: { x: number; y: number; moved: boolean; brushFrom: number | null } | null = null;

  on('pointerdown', event => {
    if (event.button === 0) {
      element.setPointerCapture(event.pointerId);
      const { offsetX: x, offsetY: y } = event;
      drag = { x, y, moved: false, brushFrom: event.shiftKey && gestures.brush ? x : null };
    }
  });
  on('pointermove', ({ offsetX: x, offsetY: y }) => {
    if (!drag) {
      gestures.hover(x, y);
    } else if (drag.moved || Math.hypot(x - drag.x, y - drag.y) > CLICK_PX) {
      element.classList.add('cm-dragging');
      gestures.leave();
      if (drag.brushFrom === null) {
        gestures.pan(x - drag.x, y - drag.y);
      } else {
        gestures.brush?.(drag.brushFrom, x);
      }
      drag = { ...drag, x, y, moved: true };
    }
  });
  const release = () => {
    drag = null;
    element.classList.remove('cm-dragging');
  };
  on('pointerup', event => {
    const wasClick = drag !== null && !drag.moved;
    release();
    if (wasClick) {
      gestures.click(event.offsetX, event.offsetY);
    }
  });
  on('pointercancel', release);
  on('pointerleave', () => gestures.leave());
  on('dblclick', event => gestures.open(event.offsetX, event.offsetY));
  on('wheel', event => {
    if (ownsWheel(event)) {
      event.preventDefault();
      turn(event, gestures);
    }
  });
  on('keydown', event => {
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : keyAction(event.key, gestures);
    if (action) {
      event.preventDefault();
      event.stopPropagation();
      action();
    }
  });
}

function turn(event: WheelEvent, gestures: Gestures): void {
  const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_PX : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  if (event.shiftKey) {
    gestures.pan(-dx - dy, 0);
  } else if (Math.abs(dx) > Math.abs(dy)) {
    gestures.pan(-dx, -dy);
  } else {
    gestures.zoomAt(event.offsetX, event.offsetY, Math.exp(-dy * (event.ctrlKey ? PINCH_ZOOM : WHEEL_ZOOM)));
  }
}

function keyAction(key: string, gestures: Gestures): (() => void) | undefined {
  const actions: Record<string, () => void> = {
    ArrowRight: () => gestures.walk('right', 1),
    ArrowLeft: () => gestures.walk('right', -1),
    ArrowDown: () => gestures.walk('down', 1),
    ArrowUp: () => gestures.walk('down', -1),
    Enter: () => gestures.openChosen(),
    Escape: () => gestures.dismiss(),
    '+': () => gestures.zoom(KEY_ZOOM),
    '=': () => gestures.zoom(KEY_ZOOM),
    '-': () => gestures.zoom(1 / KEY_ZOOM),
    f: () => gestures.fit(),
    l: () => gestures.follow(),
    g: () => gestures.toggleGroups()
  };
  return actions[key.length === 1 ? key.toLowerCase() : key];
}
