// timeline/: the view of when and where tasks ran; never another view.

// The timeline on a canvas element: what is visible, and how it reacts to the reader.

import { svgOf } from '../../draw/svg';
import { AXIS_PX, barRect, drawTimeline, LANE_PX, NAMES_PX, type TimelineScene } from '../../draw/timeline';
import { duration } from '../../i18n/format';
import { __ } from '../../i18n/translate';
import type { TaskGraph } from '../../model/graph';
import { NONE } from '../../model/rows';
import { collectiveInWords } from '../../model/views/ranks';
import { arrange, type Arranged, type Bar, extent, fitTime, type Scale, zoomTime } from '../../model/views/timeline';
import { gapReason, journey, story } from '../../model/views/timeline_words';
import { CanvasView, type Wheel } from '../shared/canvas';
import { rowTitle } from '../shared/describe';

/** The pace at which bars of running tasks grow; a quicker one would look the same. */
const FRAME_MS = 33;
/** Tolerance of the pointer in pixels. */
const NEAR_PX = 3;
const PNG_SCALE = 2;

/** 'fit': all there is; 'follow': the present at the right edge; 'free': where the reader put it. */
type Aim = 'fit' | 'follow' | 'free';

export interface TimelineEvents {
  onSelect(row: number): void;
  onOpen(row: number): void;
  onBrush(brush: readonly [number, number] | null): void;
  onAim(canvas: TimelineCanvas): void;
}

export class TimelineCanvas extends CanvasView {
  private scale: Scale = { t0: 0, pxPerS: 100 };
  private top = 0;
  private aim: Aim = 'fit';
  private arranged: Arranged | null = null;
  private hovered = NONE;
  private selected = NONE;

  constructor(
    host: HTMLElement,
    private graph: TaskGraph,
    private readonly events: TimelineEvents,
    wheel: Wheel
  ) {
    super(host, 'cm-canvas cm-timeline', {
      description: __('timeline'),
      label: __(
        'Timeline, one lane for each worker. Left and right go from task to task in a lane, up and down from lane to lane, Enter opens the card, plus and minus zoom, F fits, L follows. Drag with Shift to mark a stretch of time.'
      )
    });
    this.start(this.gestures(), wheel);
  }

  get isFollowing(): boolean {
    return this.aim === 'follow';
  }

  setGraph(graph: TaskGraph): void {
    if (graph !== this.graph) {
      this.graph = graph;
      this.aim = 'fit';
    }
    this.refresh();
  }

  refresh(): void {
    this.schedule();
  }

  select(row: number): void {
    this.selected = row;
    this.schedule();
  }

  fit(): void {
    this.setAim('fit');
  }

  follow(isFollowing: boolean): void {
    this.setAim(isFollowing ? 'follow' : 'free');
  }

  zoom(factor: number): void {
    this.zoomAt(NAMES_PX + this.plotWidth / 2, factor);
  }

  /** The picture as an SVG document, with all lanes. */
  svg(): string {
    const scene = this.whole();
    return svgOf(scene.view.width, scene.view.height, pen => drawTimeline(pen, scene));
  }

  /** The picture as a PNG, at twice the resolution of the screen. */
  png(): Promise<Blob> {
    const scene = this.whole();
    const canvas = document.createElement('canvas');
    canvas.width = PNG_SCALE * scene.view.width;
    canvas.height = PNG_SCALE * scene.view.height;
    const pen = canvas.getContext('2d')!;
    pen.scale(PNG_SCALE, PNG_SCALE);
    drawTimeline(pen, scene);
    return new Promise((resolve, reject) => {
      canvas.toBlob(blob => (blob ? resolve(blob) : reject(new Error('the picture is too large'))), 'image/png');
    });
  }

  private whole(): TimelineScene {
    const arranged = this.arrange();
    const height = AXIS_PX + LANE_PX * arranged.lanes.length + 8;
    return { ...this.scene(arranged), top: 0, view: { width: this.size.width, height }, hovered: NONE };
  }

  // ---- drawing

  private get plotWidth(): number {
    return Math.max(40, this.size.width - NAMES_PX);
  }

  private now(): number {
    return this.graph.time(performance.now());
  }

  private setAim(aim: Aim): void {
    this.aim = aim;
    this.events.onAim(this);
    this.schedule();
  }

  private arrange(): Arranged {
    if (this.aim === 'fit') {
      this.scale = fitTime(extent(this.graph, this.now()), this.plotWidth);
    } else if (this.aim === 'follow') {
      this.scale = { ...this.scale, t0: this.now() - (0.94 * this.plotWidth) / this.scale.pxPerS };
    }
    return arrange(this.graph, this.scale, Math.floor(this.plotWidth), this.now());
  }

  private scene(arranged: Arranged): TimelineScene {
    const { graph, theme, scale, size, top, hovered, selected, brush, stateFilter } = this;
    const lit = stateFilter === null ? null : (row: number) => graph.state[row] === stateFilter;
    return { graph, theme, arranged, scale, view: size, top, now: this.now(), hovered, selected, brush, lit };
  }

  protected frame(): void {
    this.arranged = this.arrange();
    const most = Math.max(0, AXIS_PX + this.arranged.lanes.length * LANE_PX - this.size.height);
    this.top = Math.min(most, Math.max(0, this.top));
    const ratio = window.devicePixelRatio || 1;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawTimeline(this.pen, this.scene(this.arranged));
    const { counts } = this.graph;
    if (counts.running > 0 && this.aim !== 'free' && !this.graph.isStill) {
      this.scheduleIn(FRAME_MS);
    }
  }

  // ---- what the reader does

  private zoomAt(x: number, factor: number): void {
    this.tooltip.hide();
    this.scale = zoomTime(this.scale, x - NAMES_PX, factor);
    if (this.aim !== 'follow') {
      this.setAim('free');
    }
    this.schedule();
  }

  private barAt(x: number, y: number): Bar | null {
    const hits = this.arranged?.bars.filter(bar => {
      const [left, top, width, height] = barRect({ top: this.top }, bar);
      return x >= left - NEAR_PX && x <= left + width + NEAR_PX && y >= top && y <= top + height;
    });
    return hits?.[hits.length - 1] ?? null;
  }

  private laneAt(y: number): number {
    const lane = Math.floor((y - AXIS_PX + this.top) / LANE_PX);
    return y > AXIS_PX && this.arranged && lane < this.arranged.lanes.length ? lane : NONE;
  }

  private hover(x: number, y: number): void {
    const bar = this.barAt(x, y);
    const row = bar?.row ?? NONE;
    if (row !== this.hovered) {
      this.hovered = row;
      this.element.classList.toggle('cm-over', row !== NONE);
      this.schedule();
    }
    const lines = bar ? this.barInWords(bar, x) : this.gapAt(x, y);
    if (lines.length) {
      this.tooltip.show(lines, x, y, this.size);
    } else {
      this.tooltip.hide();
    }
  }

  private barInWords({ kind, row, index, collectives, x1 }: Bar, x: number): string[] {
    const { graph } = this;
    if (kind === 'transfer') {
      return journey(graph, graph.transfers[index]!, this.now());
    }
    if (kind === 'lost') {
      const { sent, began, lost, worker } = graph.losses[index]!;
      const where = graph.nodeName(graph.workers.get(worker)?.node ?? 0);
      const ran = Number.isNaN(began)
        ? __('sent %1 before', duration(lost - sent))
        : __('ran for %1', duration(lost - began));
      return [row === NONE ? __('unknown') : rowTitle(graph, row), __('lost with %1', where), ran];
    }
    const under = collectives.find(each => x >= NAMES_PX + each.x0 - 1 && x <= NAMES_PX + each.x1 + 1);
    const met = under ? collectiveInWords(under.collective, this.scale.t0 + x1 / this.scale.pxPerS) : [];
    return [rowTitle(graph, row), ...met, ...story(graph, row, this.now())];
  }

  /** The tooltip of a place without a bar. */
  private gapAt(x: number, y: number): string[] {
    const lane = this.laneAt(y);
    const column = Math.floor(x - NAMES_PX);
    const at = this.scale.t0 + (x - NAMES_PX) / this.scale.pxPerS;
    const [from] = extent(this.graph, this.now());
    if (lane === NONE || column < 0 || !this.arranged || at < from || at > this.now()) {
      return [];
    }
    if (this.arranged.cover[lane * this.arranged.width + column]) {
      return [__('Many short tasks'), __('zoom in to see them one by one')];
    }
    const [before, behind] = this.neighbours(lane, x - NAMES_PX);
    const idle =
      before && behind ? [__('idle for %1', duration((behind.x0 - before.x1) / this.scale.pxPerS))] : [__('idle')];
    const { worker, node } = this.arranged.lanes[lane]!;
    const label = this.graph.nodes.get(node);
    if (label && at > label.ended) {
      return [__('%1 was lost', label.name), label.reason];
    }
    return worker === NONE ? [this.graph.nodeName(node)] : [...idle, ...gapReason(this.graph, at, worker)];
  }

  private neighbours(lane: number, x: number): [Bar | undefined, Bar | undefined] {
    const bars = this.arranged?.bars.filter(bar => bar.lane === lane) ?? [];
    const at = bars.findIndex(bar => bar.x0 > x);
    return at < 0 ? [bars[bars.length - 1], undefined] : [bars[at - 1], bars[at]];
  }

  private walk(axis: 'right' | 'down', step: 1 | -1): void {
    const bars = this.arranged?.bars ?? [];
    const here = bars.find(bar => bar.row === this.selected);
    if (!here) {
      const first = bars[0];
      if (first) {
        this.events.onSelect(first.row);
      }
      return;
    }
    const middle = (here.x0 + here.x1) / 2;
    const candidates =
      axis === 'right'
        ? bars.filter(bar => bar.lane === here.lane && (bar.x0 - here.x0) * step > 0)
        : bars.filter(bar => (bar.lane - here.lane) * step > 0);
    const distance = (bar: Bar) => Math.abs(bar.lane - here.lane) * 1e6 + Math.abs((bar.x0 + bar.x1) / 2 - middle);
    const next = candidates.reduce<Bar | null>(
      (best, bar) => (best && distance(best) <= distance(bar) ? best : bar),
      null
    );
    if (next) {
      this.events.onSelect(next.row);
    }
  }

  private gestures() {
    const time = (x: number) => this.scale.t0 + (x - NAMES_PX) / this.scale.pxPerS;
    return {
      hover: (x: number, y: number) => this.hover(x, y),
      leave: () => {
        this.hovered = NONE;
        this.tooltip.hide();
        this.schedule();
      },
      click: (x: number, y: number) => {
        this.events.onSelect(this.barAt(x, y)?.row ?? NONE);
        if (this.brush && !this.barAt(x, y)) {
          this.events.onBrush(null);
        }
      },
      open: (x: number, y: number) => {
        const bar = this.barAt(x, y);
        if (bar) {
          this.events.onOpen(bar.row);
        }
      },
      pan: (dx: number, dy: number) => {
        this.scale = { ...this.scale, t0: this.scale.t0 - dx / this.scale.pxPerS };
        this.top -= dy;
        if (dx) {
          this.setAim('free');
        }
        this.schedule();
      },
      brush: (from: number, to: number) => {
        this.events.onBrush([time(Math.max(NAMES_PX, Math.min(from, to))), time(Math.max(from, to))]);
      },
      zoomAt: (x: number, _y: number, factor: number) => this.zoomAt(Math.max(NAMES_PX, x), factor),
      zoom: (factor: number) => this.zoom(factor),
      walk: (axis: 'right' | 'down', step: 1 | -1) => this.walk(axis, step),
      openChosen: () => {
        if (this.selected !== NONE) {
          this.events.onOpen(this.selected);
        }
      },
      dismiss: () => {
        this.events.onSelect(NONE);
        this.events.onBrush(null);
      },
      fit: () => this.fit(),
      follow: () => this.follow(!this.isFollowing),
      toggleGroups: () => undefined
    };
  }
}
