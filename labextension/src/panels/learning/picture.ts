// learning/: the view of runs of learning; never another view.

// The plot of runs on a canvas element, with the values at the pointer.

import type { LearningPlot, Place } from '../../draw/learning_plot';
import { __ } from '../../i18n/translate';
import { NONE } from '../../model/rows';
import { Canvas } from '../shared/canvas';
import type { Gestures } from '../shared/gestures';

/** A key moves the line of the values by so many pixels. */
const STEP_PX = 16;

export interface PictureEvents {
  onChoose(run: number): void;
  /** The lines of a tooltip. */
  describe(places: readonly Place[]): string[];
}

export class LearningPicture extends Canvas {
  private plot: LearningPlot | null = null;
  private marked = NONE;
  private pointer: readonly [number, number] | null = null;

  constructor(
    host: HTMLElement,
    private readonly events: PictureEvents,
    private readonly plotOf: (view: { width: number; height: number }) => LearningPlot
  ) {
    super(host, 'cm-canvas cm-learning-plot', {
      description: __('plot of learning'),
      label: __('Runs of learning. Left and right go through the values of all runs, Escape chooses none.')
    });
    this.start(this.gestures(), 'never');
  }

  /** The curves have changed, or which of them stands out. */
  refresh(marked: number): void {
    this.marked = marked;
    this.plot = null;
    this.schedule();
  }

  protected override resized(): void {
    this.plot = null;
  }

  protected frame(): void {
    const { pen, size, theme, pointer } = this;
    const ratio = window.devicePixelRatio || 1;
    const plot = (this.plot ??= this.plotOf(size));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    plot.paint(pen, theme, this.marked);
    const places = pointer ? plot.placesAt(pointer[0]) : [];
    if (pointer && places.length) {
      plot.aim(pen, theme, pointer[0]);
      this.tooltip.show(this.events.describe(places), ...pointer, size);
    } else {
      this.tooltip.hide();
    }
    this.element.classList.toggle('cm-over', pointer !== null && plot.hit(...pointer) !== NONE);
  }

  private point(at: readonly [number, number] | null): void {
    this.pointer = at;
    this.schedule();
  }

  private gestures(): Gestures {
    const nothing = () => undefined;
    return {
      hover: (x, y) => this.point([x, y]),
      leave: () => this.point(null),
      click: (x, y) => this.events.onChoose(this.plot?.hit(x, y) ?? NONE),
      open: nothing,
      pan: nothing,
      zoomAt: nothing,
      zoom: nothing,
      walk: (_, step) => {
        const { width, height } = this.size;
        const [x, y] = this.pointer ?? [step > 0 ? 0 : width, height / 3];
        this.point([Math.min(width, Math.max(0, x + step * STEP_PX)), y]);
      },
      openChosen: nothing,
      dismiss: () => {
        this.point(null);
        this.events.onChoose(NONE);
      },
      fit: nothing,
      follow: nothing,
      toggleGroups: nothing
    };
  }
}
