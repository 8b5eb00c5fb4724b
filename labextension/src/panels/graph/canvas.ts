// The graph on a canvas element. What is where, how it looks and from where it is seen is decided elsewhere (layout,
// `draw/`, viewpoint); this file brings them together and decides when to draw.

import { GroupArrangement, TaskArrangement } from '../../arrange';
import { panBy, seen, toWorld, zoomAt } from '../../camera';
import { CAPTION, MARGIN, drawGroups, groupNeighbours, isAnimated as groupsAnimated } from '../../draw/groups';
import { type Image, makeImage, rasterTasks } from '../../draw/raster';
import { type Scene, drawGrid, isSettled } from '../../draw/scene';
import { drawTasks, isAnimated as tasksAnimated } from '../../draw/tasks';
import { Glide } from '../../glide';
import { type Direction, type LayeredLayout, NONE, type Rect } from '../../layout';
import type { TaskGraph } from '../../model';
import { State } from '../../protocol';
import { __ } from '../../text';
import { EASE_MS, type Sight, Viewpoint } from '../../viewpoint';
import { walk } from '../../walk';
import { CanvasView, type Wheel } from '../canvas';
import { describeGroup, describeRow } from './describe';

/** More rows than this are shown as groups unless the reader asks otherwise. */
export const GROUP_FROM = 400;
/** More boxes than this in view are drawn as an image. */
const BOXES_MAX = 2500;
const RELATIVES_MAX = 3000;
/** What moves by itself (turning marks) does so at this pace; everything else at the display's. */
const IDLE_FRAME_MS = 40;
/** Outlines, captions and layers on their way reach so far beyond their boxes. */
const SLACK = 60;

export type Show = 'auto' | 'tasks' | 'groups' | 'machines';
export type Picked = { kind: 'task' | 'group'; index: number };

export interface CanvasEvents {
  /** A box was chosen, by pointer or key; null: none is. */
  onSelect(picked: Picked | null): void;
  /** Enter or a double click. */
  onOpen(picked: Picked): void;
  /** What is shown, or whether the view follows the work, has changed. */
  onView(canvas: GraphCanvas): void;
}

export interface CanvasOptions {
  wheel: Wheel;
  /** In a cell: flows as the panel beside it does, and shows everything once nothing is under way. */
  isInline?: boolean;
}

export class GraphCanvas extends CanvasView {
  private readonly viewpoint = new Viewpoint();
  private readonly glide = new Glide();
  private tasks: TaskArrangement;
  private groups: GroupArrangement;
  private image: { target: Image; data: ImageData } | null = null;

  private show: Show = 'auto';
  /** Which picture is on the canvas: of rows or groups, of which epoch of the graph, arranged how. */
  private shown = { showsGroups: false, epoch: NONE, generation: NONE };
  private hovered = NONE;
  private selection: Picked | null = null;
  private groupFilter = NONE;
  private lit: ((box: number) => boolean) | null = null;
  private litKey = '';

  private lastFrameMs = 0;
  private changedMs = Number.NEGATIVE_INFINITY;

  constructor(
    host: HTMLElement,
    private graph: TaskGraph,
    private readonly events: CanvasEvents,
    private readonly options: CanvasOptions
  ) {
    super(host, 'cm-canvas', {
      description: __('task graph'),
      label: __('Task graph. Arrow keys walk along dependencies, Enter opens the card, plus and minus zoom, F fits, L follows.')
    });
    this.tasks = new TaskArrangement(graph);
    this.groups = new GroupArrangement(graph);
    this.start(this.gestures(), options.wheel);
  }

  // ---- what others ask for

  setGraph(graph: TaskGraph): void {
    if (graph !== this.graph) {
      this.graph = graph;
      this.tasks = new TaskArrangement(graph);
      this.groups = new GroupArrangement(graph);
      this.shown.epoch = NONE;
      this.litKey = '';
      this.selection = null;
      this.viewpoint.aim = graph.isStill ? this.viewpoint.aim : 'follow';
    }
    this.refresh();
  }

  refresh(): void {
    this.changedMs = performance.now();
    this.schedule();
  }

  get showsGroups(): boolean {
    return this.show === 'groups' || this.show === 'machines' || (this.show === 'auto' && this.graph.n > GROUP_FROM);
  }

  private get byMachine(): boolean {
    return this.show === 'machines' && this.graph.isClustered;
  }

  get isFollowing(): boolean {
    return this.viewpoint.aim === 'follow';
  }

  setShow(show: Show): void {
    const before = this.byMachine;
    this.show = show;
    if (before !== this.byMachine && this.selection?.kind === 'group') {
      this.choose(NONE); // its number is another group's now
    }
    this.groupFilter = NONE;
    this.hovered = NONE;
    if (this.graph.isStill) {
      this.fit(); // nothing moves on that could be followed
    } else {
      this.follow(true);
    }
  }

  /** Show the rows of one group, in the picture of all rows. */
  expand(group: number): void {
    this.setShow('tasks');
    this.groupFilter = group;
    this.fit();
  }

  fit(): void {
    this.viewpoint.aim = 'fit';
    this.viewChanged();
  }

  follow(isFollowing: boolean): void {
    this.viewpoint.aim = isFollowing ? 'follow' : 'free';
    this.viewChanged();
  }

  zoom(factor: number): void {
    const { target, size } = this.viewpoint;
    this.viewpoint.moveTo(zoomAt(target, size.width / 2, size.height / 2, factor));
    this.viewChanged();
  }

  /** Mark a box as chosen and bring it into view. */
  select(picked: Picked | null): void {
    this.selection = picked;
    const box = this.chosen();
    if (box !== NONE) {
      this.viewpoint.reveal(this.rect(box));
    }
    this.viewChanged();
  }

  /** Something lies over the lower or the right part of the graph. */
  cover(right: number, bottom: number): void {
    this.viewpoint.cover(right, bottom);
    const box = this.chosen();
    if (this.viewpoint.aim === 'free' && box !== NONE) {
      this.viewpoint.reveal(this.rect(box));
    }
    this.schedule();
  }

  // ---- when to draw

  private viewChanged(): void {
    this.events.onView(this);
    this.schedule();
  }

  protected override resized(): void {
    this.viewpoint.size = this.size;
    this.image = null;
  }

  protected frame(clockMs: number): void {
    const { viewpoint } = this;
    const elapsedMs = Math.min(100, clockMs - this.lastFrameMs);
    this.lastFrameMs = clockMs;
    const isMoving = !matchMedia('(prefers-reduced-motion: reduce)').matches;
    const layout = this.arranged();
    const isTravelling = viewpoint.step(this.sight(layout), elapsedMs, isMoving);
    const isGliding = this.glide.step(layout, isMoving ? 1 - Math.exp(-elapsedMs / EASE_MS) : 1, viewpoint.camera.zoom);
    const isAnimated = this.draw(this.scene(layout, clockMs, isMoving));
    if (isTravelling || isGliding || (isMoving && !isSettled(clockMs, this.changedMs))) {
      this.schedule();
    } else if (isAnimated && isMoving && !this.graph.isStill) {
      this.scheduleIn(IDLE_FRAME_MS);
    }
  }

  // ---- what is shown

  /** The layout of what is shown, up to date. */
  private arranged(): LayeredLayout {
    const { showsGroups, shown, graph } = this;
    if (showsGroups) {
      graph.regroup(this.byMachine);
    }
    const arrangement = showsGroups ? this.groups : this.tasks;
    arrangement.update(this.options.isInline ? 'down' : this.viewpoint.direction());
    const { layout, generation } = arrangement;
    const isSame = shown.showsGroups === showsGroups && shown.epoch === graph.epoch;
    if (!isSame || shown.generation !== generation) {
      this.shown = { showsGroups, epoch: graph.epoch, generation };
      this.glide.begin(layout, isSame);
      if (!isSame) {
        // Nothing of the picture before can be followed by the eye, so this one begins in its place.
        this.hovered = NONE;
        this.viewpoint.aim = this.viewpoint.aim === 'fit' ? 'fit' : 'follow';
        this.viewpoint.begin(this.sight(layout));
      }
      this.events.onView(this);
    }
    return layout;
  }

  private sight(layout: LayeredLayout): Sight | null {
    if (!layout.n) {
      return null;
    }
    const { running, ready, waiting } = this.graph.counts;
    const isOver = this.options.isInline === true && running + ready + waiting === 0;
    return {
      bounds: this.groupFilter === NONE ? this.bounds(layout) : this.groupBounds(layout),
      direction: layout.direction,
      isOverview: isOver || (!this.showsGroups && layout.n > 2 * GROUP_FROM),
      front: () => this.front(layout)
    };
  }

  /** Where along the flow work goes on: the middle of what is running, else what came last. */
  private front(layout: LayeredLayout): number {
    const starts = layout.starts();
    const { graph } = this;
    const isRunning = this.showsGroups
      ? (box: number) => graph.groups.list[box]!.counts[State.running]! > 0
      : (box: number) => graph.state[box] === State.running;
    let [sum, n] = [0, 0];
    for (let box = 0; box < layout.n; box++) {
      if (isRunning(box)) {
        sum += layout.along(box, starts);
        n++;
      }
    }
    return n ? sum / n : layout.along(layout.n - 1, starts);
  }

  /** Of all boxes, and by machine of what lies behind them. */
  private bounds(layout: LayeredLayout): Rect {
    const bounds = layout.bounds();
    if (!this.showsGroups || !this.graph.byMachine) {
      return bounds;
    }
    const { x, y, width, height } = bounds;
    return { x: x - MARGIN, y: y - MARGIN - CAPTION, width: width + 2 * MARGIN, height: height + 2 * MARGIN + CAPTION };
  }

  private groupBounds(layout: LayeredLayout): Rect {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let row = 0; row < layout.n; row++) {
      if (this.graph.group[row] === this.groupFilter) {
        const { x, y, width, height } = this.rect(row, layout);
        [left, top] = [Math.min(left, x), Math.min(top, y)];
        [right, bottom] = [Math.max(right, x + width), Math.max(bottom, y + height)];
      }
    }
    return left < right ? { x: left, y: top, width: right - left, height: bottom - top } : layout.bounds();
  }

  private rect(box: number, layout = this.arranged()): Rect {
    const starts = layout.starts();
    const { width, height } = layout.metrics;
    return { x: layout.x(box, starts), y: layout.y(box, starts), width, height };
  }

  private scene(layout: LayeredLayout, clockMs: number, isMoving: boolean): Scene {
    const { graph, glide, viewpoint, theme, hovered } = this;
    return {
      graph,
      layout,
      starts: glide.starts,
      shift: glide.shift,
      camera: viewpoint.camera,
      view: viewpoint.size,
      theme,
      now: graph.time(clockMs),
      clockMs,
      isMoving,
      hovered,
      selected: this.chosen(),
      lit: this.light()
    };
  }

  /** Draw; true if it would look different a little later although nothing happens. */
  private draw(scene: Scene): boolean {
    const { pen } = this;
    const { layout, camera, view } = scene;
    const ratio = window.devicePixelRatio || 1;
    const inView = (view.width * view.height) / (layout.linePitch * layout.slotPitch * camera.zoom ** 2);
    if (!this.showsGroups && layout.n > BOXES_MAX && inView > BOXES_MAX) {
      this.drawImage(scene, ratio);
      return false;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, view.width, view.height);
    drawGrid(pen, scene);
    const boxes: number[] = [];
    if (scene.shift) {
      boxes.push(...Array(layout.n).keys());
    } else {
      const { x, y, width, height } = seen(camera, view);
      const around = { x: x - SLACK, y: y - SLACK, width: width + 2 * SLACK, height: height + 2 * SLACK };
      layout.visible(around, box => boxes.push(box));
    }
    if (this.showsGroups) {
      drawGroups(pen, scene, boxes);
      return groupsAnimated(scene, boxes);
    }
    drawTasks(pen, scene, boxes);
    return tasksAnimated(scene, boxes);
  }

  private drawImage(scene: Scene, ratio: number): void {
    if (!this.image) {
      const { width, height } = this.element;
      const target = makeImage(width, height);
      const bytes = new Uint8ClampedArray(target.pixels.buffer as ArrayBuffer);
      this.image = { target, data: new ImageData(bytes, width, height) };
    }
    rasterTasks(this.image.target, scene, ratio);
    this.pen.putImageData(this.image.data, 0, 0);
  }

  /** What is lit while the rest is dimmed: relatives of what is under the pointer, or what a filter asks for. */
  private light(): ((box: number) => boolean) | null {
    const { graph, hovered, stateFilter, brush, groupFilter, showsGroups } = this;
    const key = [graph.version, showsGroups, hovered, stateFilter, brush, groupFilter].join(' ');
    if (key !== this.litKey) {
      this.litKey = key;
      this.lit = null;
      if (hovered !== NONE) {
        const near = showsGroups ? groupNeighbours({ graph }, hovered) : graph.relatives(hovered, RELATIVES_MAX);
        this.lit = near.size > 1 ? box => near.has(box) : null;
      } else if (stateFilter !== null) {
        this.lit = showsGroups
          ? box => graph.groups.list[box]!.counts[stateFilter]! > 0
          : row => graph.state[row] === stateFilter;
      } else if (brush) {
        const groups = showsGroups ? graph.seenIn(brush, row => graph.group[row]!) : null;
        this.lit = box => (groups ? groups.has(box) : graph.ranIn(box, brush));
      } else if (groupFilter !== NONE && !showsGroups) {
        this.lit = row => graph.group[row] === groupFilter;
      }
    }
    return this.lit;
  }

  // ---- what the reader does

  private gestures() {
    const { viewpoint } = this;
    return {
      hover: (x: number, y: number) => this.hover(this.boxAt(x, y), x, y),
      leave: () => this.hover(NONE, 0, 0),
      click: (x: number, y: number) => this.choose(this.boxAt(x, y)),
      open: (x: number, y: number) => {
        const box = this.boxAt(x, y);
        if (box !== NONE) {
          this.events.onOpen(this.picked(box));
        }
      },
      pan: (dx: number, dy: number) => {
        viewpoint.jumpTo(panBy(viewpoint.camera, dx, dy));
        this.viewChanged();
      },
      zoomAt: (x: number, y: number, factor: number) => {
        viewpoint.jumpTo(zoomAt(viewpoint.camera, x, y, factor));
        this.viewChanged();
      },
      zoom: (factor: number) => this.zoom(factor),
      walk: (axis: Direction, step: 1 | -1) => this.walk(axis, step),
      openChosen: () => {
        if (this.selection) {
          this.events.onOpen(this.selection);
        }
      },
      dismiss: () => this.choose(NONE),
      fit: () => this.fit(),
      follow: () => this.follow(true),
      toggleGroups: () => this.setShow(this.showsGroups ? 'tasks' : 'groups')
    };
  }

  private walk(axis: Direction, step: 1 | -1): void {
    const layout = this.arranged();
    const from = this.chosen();
    if (from !== NONE) {
      const next = walk(this.graph, layout, this.showsGroups, from, axis, step);
      this.choose(next === NONE ? from : next);
    } else if (layout.n) {
      this.choose(0);
    }
  }

  /** The chosen box if it is in this picture, or NONE. */
  private chosen(): number {
    const { selection } = this;
    const kind = this.showsGroups ? 'group' : 'task';
    return selection?.kind === kind && selection.index < this.arranged().n ? selection.index : NONE;
  }

  private picked(index: number): Picked {
    return { kind: this.showsGroups ? 'group' : 'task', index };
  }

  private choose(box: number): void {
    const picked = box === NONE ? null : this.picked(box);
    this.select(picked);
    this.events.onSelect(picked);
  }

  private boxAt(x: number, y: number): number {
    const box = this.arranged().at(toWorld(this.viewpoint.camera, x, y));
    return box !== NONE && this.showsGroups && !this.graph.groups.list[box]!.n ? NONE : box;
  }

  private hover(box: number, x: number, y: number): void {
    if (box === NONE) {
      this.tooltip.hide();
    } else {
      const now = this.graph.time(performance.now());
      const lines = this.showsGroups ? describeGroup(this.graph, box) : describeRow(this.graph, box, now);
      this.tooltip.show(lines, x, y, this.viewpoint.size);
    }
    if (box !== this.hovered) {
      this.hovered = box;
      this.element.classList.toggle('cm-over', box !== NONE);
      this.schedule();
    }
  }
}
