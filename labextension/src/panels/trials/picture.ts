// A plot of trials on a canvas element. The trials are painted into a layer of their own, some milliseconds of each
// frame, so that thousands of curves never hold up the page. What stands out is painted over it in every frame.

import type { Emphasis, Plot } from '../../draw/trial_plots';
import { __ } from '../../i18n/translate';
import { NONE } from '../../model/rows';
import { Canvas } from '../shared/canvas';
import type { Gestures } from '../shared/gestures';

/** Painting takes so much of a frame of 16 ms. */
const PAINT_MS = 7;
const N_AT_ONCE = 32;

export interface PictureEvents {
  onChoose(trial: number): void;
  /** The next trial in the table's order. */
  onWalk(step: 1 | -1): void;
  /** The lines of a trial's tooltip. */
  describe(trial: number): string[];
}

/** Trials that stand out. */
export interface Marked {
  best: number;
  selected: number;
}

class Layer {
  readonly element = document.createElement('canvas');
  readonly pen = this.element.getContext('2d')!;
  n = 0;

  constructor(
    readonly plot: Plot,
    width: number,
    height: number
  ) {
    this.element.width = Math.max(1, Math.round(width * (window.devicePixelRatio || 1)));
    this.element.height = Math.max(1, Math.round(height * (window.devicePixelRatio || 1)));
  }

  get isDone(): boolean {
    return this.n >= this.plot.order.length;
  }
}

export class TrialPicture extends Canvas {
  private plot: Plot | null = null;
  private wanted = true;
  private front: Layer | null = null;
  private back: Layer | null = null;
  private hovered = NONE;
  private pointer: readonly [number, number] | null = null;
  private marked: Marked = { best: NONE, selected: NONE };

  constructor(
    host: HTMLElement,
    private readonly events: PictureEvents,
    private readonly plotOf: (view: { width: number; height: number }) => Plot
  ) {
    super(host, 'cm-canvas cm-trial-plot', {
      description: __('plot of trials'),
      label: __('Trials. Up and down go from trial to trial in the order of the table, Escape chooses none.')
    });
    this.start(this.gestures(), 'never');
  }

  /** The trials, or what is shown of them, have changed. */
  refresh(marked: Marked): void {
    this.marked = marked;
    this.wanted = true;
    this.schedule();
  }

  /** Other trials stand out. */
  mark(marked: Marked): void {
    this.marked = marked;
    this.schedule();
  }

  override readTheme(): void {
    super.readTheme();
    this.wanted = true;
  }

  protected override resized(): void {
    this.front = this.back = null;
    this.wanted = true;
  }

  protected frame(): void {
    const { pen, size, theme } = this;
    const ratio = window.devicePixelRatio || 1;
    this.advance(ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    // Until the first layer is whole it is shown as far as it has come.
    const shown = this.front ?? this.back;
    const plot = shown?.plot;
    if (!plot) {
      return;
    }
    plot.axes(pen, theme);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(shown.element, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    plot.over?.(pen, theme);
    this.aim(plot);
    const { best, selected } = this.marked;
    const emphasised: [number, Emphasis][] = [
      [best, 'best'],
      [selected, 'selected'],
      [this.hovered, 'hovered']
    ];
    for (const [trial, how] of emphasised) {
      if (trial !== NONE) {
        plot.emphasise(pen, theme, trial, how);
      }
    }
  }

  /** Paint some more trials into the layer that is under way. */
  private advance(ratio: number): void {
    if (this.wanted && (!this.back || this.back.isDone)) {
      this.plot = this.plotOf(this.size);
      this.back = new Layer(this.plot, this.size.width, this.size.height);
      this.wanted = false;
    }
    const { back } = this;
    if (!back) {
      return;
    }
    const until = performance.now() + PAINT_MS;
    back.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    while (!back.isDone && performance.now() < until) {
      const to = Math.min(back.plot.order.length, back.n + N_AT_ONCE);
      back.plot.paint(back.pen, this.theme, back.n, to);
      back.n = to;
    }
    if (back.isDone) {
      this.front = back;
      this.back = null;
    }
    if (!back.isDone || this.wanted) {
      queueMicrotask(() => this.schedule());
    }
  }

  /** Which trial the pointer is at: once a frame, however often it moves. */
  private aim(plot: Plot): void {
    const { pointer } = this;
    const found = pointer ? plot.hit(...pointer) : NONE;
    this.element.classList.toggle('cm-over', found !== NONE);
    if (found !== NONE && pointer) {
      if (found !== this.hovered) {
        this.tooltip.show(this.events.describe(found), ...pointer, this.size);
      }
    } else {
      this.tooltip.hide();
    }
    this.hovered = found;
  }

  private gestures(): Gestures {
    const nothing = () => undefined;
    return {
      hover: (x, y) => {
        this.pointer = [x, y];
        this.schedule();
      },
      leave: () => {
        this.pointer = null;
        this.schedule();
      },
      click: (x, y) => this.events.onChoose((this.front ?? this.back)?.plot.hit(x, y) ?? NONE),
      open: nothing,
      pan: nothing,
      zoomAt: nothing,
      zoom: nothing,
      walk: (_, step) => this.events.onWalk(step),
      openChosen: nothing,
      dismiss: () => this.events.onChoose(NONE),
      fit: nothing,
      follow: nothing,
      toggleGroups: nothing
    };
  }
}
