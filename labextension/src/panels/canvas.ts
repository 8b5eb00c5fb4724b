// A canvas element that fills its host and is drawn again when something has changed: what graph and timeline have in common.

import { type Theme, makeTheme } from '../draw/theme';
import type { TaskGraph } from '../model';
import type { State } from '../protocol';
import { type Gestures, listen } from './graph/gestures';
import { Tooltip } from './graph/tooltip';

/** 'focused': the wheel belongs to the page until the canvas has the focus or Ctrl is held. */
export type Wheel = 'always' | 'focused';

/** For those who cannot see the canvas: what it is, and how it is used. */
export interface Role {
  description: string;
  label: string;
}

export abstract class CanvasView {
  readonly element = document.createElement('canvas');
  protected readonly pen = this.element.getContext('2d')!;
  protected readonly tooltip: Tooltip;
  protected theme!: Theme;
  protected size = { width: 0, height: 0 };
  protected stateFilter: State | null = null;
  protected brush: readonly [number, number] | null = null;
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

  /** Begin to listen and to draw; the last thing that a constructor does. */
  protected start(gestures: Gestures, wheel: Wheel): void {
    const { element } = this;
    const ownsWheel = (event: WheelEvent) =>
      wheel === 'always' || event.ctrlKey || element.ownerDocument.activeElement === element;
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

  /** Show another graph from now on. */
  abstract setGraph(graph: TaskGraph): void;
  /** The graph has changed. */
  abstract refresh(): void;
  /** Draw what there is now. */
  protected abstract frame(clockMs: number): void;
  /** The canvas has another size and is empty. */
  protected resized(): void {}

  /** The colours have changed. */
  readTheme(): void {
    const style = getComputedStyle(this.host);
    this.theme = makeTheme(name => style.getPropertyValue(name), style.getPropertyValue('--cm-is-dark').trim() === '1');
    this.schedule();
  }

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

  /** Draw a little later, unless something asks for it before. */
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
      // Without waiting for a frame: an empty canvas would flash while a splitter is dragged.
      this.frame(performance.now());
    }
  }
}
