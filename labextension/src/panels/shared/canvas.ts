// Canvas elements that fill their host and are drawn again after changes: of any picture, and of graph and timeline.
// They have the colours of the style sheet.

import { useEffect, useState } from 'preact/hooks';
import type { TaskGraph } from '../../model/graph';
import type { State } from '../../protocol/messages';
import { makeTheme, type Theme } from '../../theme/theme';
import { type Gestures, listen } from './gestures';
import { Tooltip } from './tooltip';

/**
 * 'focused': the wheel belongs to the page until the canvas has the focus or Ctrl is held; 'never': it always does.
 */
export type Wheel = 'always' | 'focused' | 'never';

/** What screen readers say of the canvas: what it is, and how to use it. */
export interface Role {
  description: string;
  label: string;
}

export abstract class Canvas {
  readonly element = document.createElement('canvas');
  protected readonly pen = this.element.getContext('2d')!;
  protected readonly tooltip: Tooltip;
  protected theme!: Theme;
  protected size = { width: 0, height: 0 };
  private readonly abort = new AbortController();
  private readonly resizing = new ResizeObserver(() => this.resize());
  private request = 0;
  private timer = 0;

  constructor(
    private readonly host: HTMLElement,
    className: string,
    role: Role
  ) {
    const { element } = this;
    element.className = className;
    element.tabIndex = 0;
    element.setAttribute('role', 'application');
    element.setAttribute('aria-roledescription', role.description);
    element.setAttribute('aria-label', role.label);
    host.append(element);
    this.tooltip = new Tooltip(host);
  }

  /** Start to listen and to draw; a constructor calls this last. */
  protected start(gestures: Gestures, wheel: Wheel): void {
    const { element } = this;
    const ownsWheel = (event: WheelEvent) =>
      wheel === 'always' || (wheel === 'focused' && (event.ctrlKey || element.ownerDocument.activeElement === element));
    listen(element, gestures, ownsWheel, this.abort.signal);
    document.addEventListener('visibilitychange', () => this.schedule(), { signal: this.abort.signal });
    this.resizing.observe(this.host);
    this.readTheme();
    this.resize();
  }

  dispose(): void {
    this.abort.abort();
    this.resizing.disconnect();
    cancelAnimationFrame(this.request);
    clearTimeout(this.timer);
    this.tooltip.dispose();
    this.element.remove();
  }

  /** Draw what there is now. */
  protected abstract frame(clockMs: number): void;
  /** The canvas has another size and is empty. */
  protected resized(): void {}

  /** The colours have changed. */
  readTheme(): void {
    this.theme = themeOf(this.host);
    this.schedule();
  }

  /** Draw with the display's next frame. */
  protected schedule(): void {
    clearTimeout(this.timer);
    if (!this.request && this.size.width > 0) {
      this.request = requestAnimationFrame(() => {
        this.request = 0;
        this.frame(performance.now());
      });
    }
  }

  /** Draw a little later, unless something schedules it earlier. */
  protected scheduleIn(ms: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.schedule(), ms);
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width === this.size.width && height === this.size.height) {
      return;
    }
    this.size = { width, height };
    const ratio = window.devicePixelRatio || 1;
    this.element.width = Math.round(width * ratio);
    this.element.height = Math.round(height * ratio);
    this.resized();
    if (width > 0) {
      // At once, without waiting for a frame: an empty canvas would flash while a splitter is dragged.
      this.frame(performance.now());
    }
  }
}

/** A picture of a graph. */
export abstract class CanvasView extends Canvas {
  protected stateFilter: State | null = null;
  protected brush: readonly [number, number] | null = null;

  /** Show another graph from now on. */
  abstract setGraph(graph: TaskGraph): void;
  /** The graph has changed. */
  abstract refresh(): void;

  /** Light the rows of one state, or all again. */
  filter(state: State | null): void {
    this.stateFilter = state;
    this.schedule();
  }

  /** Light what ran in a stretch of time, or all again. */
  mark(brush: readonly [number, number] | null): void {
    this.brush = brush;
    this.schedule();
  }
}

function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  return makeTheme(name => style.getPropertyValue(name), style.getPropertyValue('--cm-is-dark').trim() === '1');
}

/** The colours of the page, read again when `look` changes; null before the first picture. */
export function useTheme(frame: { current: HTMLElement | null }, look: number): Theme | null {
  const [theme, setTheme] = useState<Theme | null>(null);
  useEffect(() => setTheme(themeOf(frame.current!)), [look]);
  return theme;
}
