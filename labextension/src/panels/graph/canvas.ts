// The graph on a canvas element: pointer, wheel and keys in, pictures out. What is where and how it looks is decided in
// the layout and in `draw/`; this file decides when to draw, and from which point of view.

import { GroupArrangement, TaskArrangement } from '../../arrange';
import { type Camera, type Insets, approach, fit, fitZoom, follow, inner, isClose, outer, panBy, reveal, seen, toWorld, zoomAt } from '../../camera';
import { drawGroups, groupNeighbours, isAnimated as groupsAnimated } from '../../draw/groups';
import { type Image, makeImage, rasterTasks } from '../../draw/raster';
import { type Scene, drawGrid, isSettled } from '../../draw/scene';
import { drawTasks, isAnimated as tasksAnimated } from '../../draw/tasks';
import { type Theme, makeTheme } from '../../draw/theme';
import { type Direction, type LayeredLayout, NONE, type Rect } from '../../layout';
import type { TaskGraph } from '../../model';
import { State } from '../../protocol';
import { describeGroup, describeRow } from './describe';
import { Tooltip } from './tooltip';

/** More rows than this are shown as groups unless the reader asks otherwise. */
export const GROUP_FROM = 400;
/** More boxes than this in view are drawn as an image. */
const BOXES_MAX = 2500;
const RELATIVES_MAX = 3000;
const MARGIN = 24;
/** Tabs and buttons float over the upper edge. */
const TOOLS_PX = 40;
/** Following work, names are kept readable. */
const LEGIBLE_ZOOM = 0.8;
/** What moves by itself (turning marks) does so at this pace; everything else at the display's. */
const IDLE_FRAME_MS = 40;
const EASE_MS = 110;
/** Beyond this many layers a shift is done at once. */
const GLIDING_LAYERS = 2000;
/** A new arrangement of more boxes than this is taken at once. */
const GLIDING_BOXES = 3000;

export type Show = 'auto' | 'tasks' | 'groups';
export type Picked = { kind: 'task' | 'group'; index: number };
type Aim = 'follow' | 'fit' | 'free';

export interface CanvasEvents {
  /** A box was chosen, by pointer or key; null: none is. */
  onSelect(picked: Picked | null): void;
  /** Enter or a double click. */
  onOpen(picked: Picked): void;
  /** What is shown, or whether the view follows the work, has changed. */
  onView(canvas: GraphCanvas): void;
}

export interface CanvasOptions {
  /** 'focused': the wheel belongs to the page until the graph has the focus or Ctrl is held. */
  wheel: 'always' | 'focused';
}

export class GraphCanvas {
  readonly element = document.createElement('canvas');
  private readonly pen: CanvasRenderingContext2D;
  private readonly tooltip: Tooltip;
  private readonly abort = new AbortController();
  private readonly resizing: ResizeObserver;
  private theme!: Theme;
  private graph: TaskGraph;
  private tasks: TaskArrangement;
  private groups: GroupArrangement;
  private image: Image | null = null;
  private imageData: ImageData | null = null;

  private size = { width: 0, height: 0 };
  private camera: Camera = { x: 0, y: 0, zoom: 1 };
  private insets: Insets = { top: TOOLS_PX, right: 0, bottom: 0, left: 0 };
  private aim: Aim = 'follow';
  /** Where a camera that was told to go somewhere is going. */
  private goal: Camera | null = null;
  private starts = new Float64Array(0);
  private arrangementShown = '';
  private layoutShown: LayeredLayout | null = null;
  /** What is left of the way to a new arrangement, see `Scene.shift`. */
  private shift: Float32Array | null = null;
  private show: Show = 'auto';
  private flow: Direction = 'down';

  private hovered = NONE;
  private selection: Picked | null = null;
  private stateFilter: State | null = null;
  private groupFilter = NONE;
  private lit: ((box: number) => boolean) | null = null;
  private litKey = '';

  private request = 0;
  private timer = 0;
  private lastFrameMs = 0;
  private changedMs = -1e9;
  private drag: { x: number; y: number; moved: boolean } | null = null;

  constructor(
    private readonly host: HTMLElement,
    graph: TaskGraph,
    private readonly events: CanvasEvents,
    private readonly options: CanvasOptions
  ) {
    this.graph = graph;
    this.tasks = new TaskArrangement(graph);
    this.groups = new GroupArrangement(graph);
    this.element.className = 'cm-canvas';
    this.element.tabIndex = 0;
    this.element.setAttribute('role', 'application');
    this.element.setAttribute('aria-roledescription', 'task graph');
    this.element.setAttribute(
      'aria-label',
      'Task graph. Arrow keys walk along dependencies, Enter opens the card, plus and minus zoom, F fits, L follows.'
    );
    host.append(this.element);
    this.pen = this.element.getContext('2d')!;
    this.tooltip = new Tooltip(host);
    this.listen();
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(host);
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
  setGraph(graph: TaskGraph): void {
    if (graph !== this.graph) {
      this.graph = graph;
      this.tasks = new TaskArrangement(graph);
      this.groups = new GroupArrangement(graph);
      this.arrangementShown = '';
      this.hovered = NONE;
      this.selection = null;
      this.aim = 'follow';
    }
    this.refresh();
  }

  /** The graph has changed. */
  refresh(): void {
    this.changedMs = performance.now();
    this.schedule();
  }

  /** The colours have changed. */
  readTheme(): void {
    const style = getComputedStyle(this.host);
    this.theme = makeTheme(name => style.getPropertyValue(name), style.getPropertyValue('--cm-is-dark').trim() === '1');
    this.schedule();
  }

  get showsGroups(): boolean {
    return this.show === 'groups' || (this.show === 'auto' && this.graph.n > GROUP_FROM && this.graph.groups.list.length > 0);
  }

  get isFollowing(): boolean {
    return this.aim === 'follow';
  }

  setShow(show: Show): void {
    this.show = show;
    this.groupFilter = NONE;
    this.hovered = NONE;
    this.aim = 'follow';
    this.events.onView(this);
    this.schedule();
  }

  /** Light the rows of one state, or all again. */
  filter(state: State | null): void {
    this.stateFilter = state;
    this.schedule();
  }

  /** Show the rows of one group, in the picture of all rows. */
  expand(group: number): void {
    this.setShow('tasks');
    this.groupFilter = group;
    this.aim = 'fit';
    this.events.onView(this);
  }

  fit(): void {
    this.aim = 'fit';
    this.events.onView(this);
    this.schedule();
  }

  follow(isFollowing: boolean): void {
    this.aim = isFollowing ? 'follow' : 'free';
    this.events.onView(this);
    this.schedule();
  }

  zoom(factor: number): void {
    this.moveTo(zoomAt(this.goal ?? this.camera, this.size.width / 2, this.size.height / 2, factor));
  }

  /** Mark a box as chosen and bring it into view. */
  select(picked: Picked | null): void {
    this.selection = picked;
    if (picked && (picked.kind === 'group') === this.showsGroups) {
      const { layout } = this.arrangement();
      if (picked.index < layout.n) {
        const { width, height } = layout.metrics;
        const starts = layout.starts();
        const rect = { x: layout.x(picked.index, starts), y: layout.y(picked.index, starts), width, height };
        const goal = outer(reveal(outer(this.camera, this.insets, -1), rect, inner(this.size, this.insets), MARGIN), this.insets);
        if (!isClose(goal, this.camera)) {
          this.moveTo(goal);
        }
      }
    }
    this.schedule();
  }

  /** Something lies over the lower or the right part of the graph. */
  cover(right: number, bottom: number): void {
    this.insets = { top: TOOLS_PX, right, bottom, left: 0 };
    if (this.aim === 'free') {
      this.select(this.selection);
    }
    this.schedule();
  }

  // ---- when to draw

  private schedule(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.request && this.size.width > 0) {
      this.request = requestAnimationFrame(() => {
        this.request = 0;
        this.frame(performance.now());
      });
    }
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
    this.image = null;
    if (width > 0) {
      // Without waiting for a frame: an empty canvas would flash while a splitter is dragged.
      this.frame(performance.now());
    }
  }

  private frame(clockMs: number): void {
    const elapsedMs = Math.min(100, clockMs - this.lastFrameMs);
    this.lastFrameMs = clockMs;
    const arrangement = this.arrangement();
    const isCameraMoving = this.moveCamera(arrangement.layout, elapsedMs);
    const isGliding = this.glide(arrangement.layout, elapsedMs);
    const isAnimated = this.draw(arrangement.layout, clockMs);
    if (isCameraMoving || isGliding || (this.isMoving && !isSettled(clockMs, this.changedMs))) {
      this.schedule();
    } else if (isAnimated && this.isMoving) {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.schedule(), IDLE_FRAME_MS);
    }
  }

  private get isMoving(): boolean {
    return !matchMedia('(prefers-reduced-motion: reduce)').matches;
  }

  private arrangement(): TaskArrangement | GroupArrangement {
    const arrangement = this.showsGroups ? this.groups : this.tasks;
    arrangement.update(this.direction());
    const shown = `${this.showsGroups} ${arrangement.generation} ${this.graph.epoch}`;
    if (shown !== this.arrangementShown) {
      const isSameGraph = this.arrangementShown.startsWith(String(this.showsGroups)) && this.arrangementShown.endsWith(` ${this.graph.epoch}`);
      this.arrangementShown = shown;
      this.shift = isSameGraph ? this.wayFrom(this.layoutShown, arrangement.layout) : null;
      this.starts = arrangement.layout.starts().slice();
      this.goal = null;
      if (!isSameGraph) {
        // Another picture: nothing of the old one can be followed by the eye, so it begins in its place.
        this.hovered = NONE;
        this.aim = this.aim === 'fit' ? 'fit' : 'follow';
      }
      if (!this.shift) {
        this.camera = this.aimed(arrangement.layout) ?? this.camera;
      }
      this.events.onView(this);
    }
    this.layoutShown = arrangement.layout;
    return arrangement;
  }

  /** How far each box is from where it was in the arrangement before. */
  private wayFrom(before: LayeredLayout | null, layout: LayeredLayout): Float32Array | null {
    if (!before || before === layout || before.n > GLIDING_BOXES || !this.isMoving) {
      return null;
    }
    const [from, to] = [before.starts(), layout.starts()];
    const way = new Float32Array(2 * before.n);
    for (let box = 0; box < before.n; box++) {
      way[2 * box] = before.x(box, from) - layout.x(box, to);
      way[2 * box + 1] = before.y(box, from) - layout.y(box, to);
    }
    return way;
  }

  /** Down in high places, right in wide ones; in between it stays as it was, so that a splitter does not make it flip. */
  private direction(): Direction {
    const { width, height } = this.size;
    const isHigh = height > width * (this.flow === 'down' ? 0.72 : 0.85);
    this.flow = isHigh ? 'down' : 'right';
    return this.flow;
  }

  // ---- point of view

  private aimed(layout: LayeredLayout): Camera | null {
    if (this.aim === 'free' || !layout.n) {
      return null;
    }
    const view = inner(this.size, this.insets);
    const bounds = this.groupFilter === NONE ? layout.bounds() : this.groupBounds(layout);
    if (this.aim === 'fit') {
      return this.centred(fit(bounds, view, MARGIN), bounds, view);
    }
    // Names that can be read, as long as the picture's breadth fits; a large overview is always seen whole.
    const across = layout.direction === 'right' ? { ...bounds, width: 0 } : { ...bounds, height: 0 };
    const isOverview = !this.showsGroups && layout.n > 2 * GROUP_FROM;
    const legible = isOverview ? 0 : Math.min(LEGIBLE_ZOOM, fitZoom(across, view, MARGIN));
    return this.centred(follow(bounds, view, MARGIN, legible, this.front(layout), layout.direction), bounds, view);
  }

  /** The camera in the whole view; what is small enough lies in its middle, not below the tools' middle. */
  private centred(camera: Camera, bounds: Rect, view: { height: number }): Camera {
    const slack = (view.height - bounds.height * camera.zoom) / 2 - MARGIN;
    return outer(panBy(camera, 0, -Math.min(TOOLS_PX / 2, Math.max(0, slack))), this.insets);
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

  private groupBounds(layout: LayeredLayout): Rect {
    const starts = layout.starts();
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let row = 0; row < layout.n; row++) {
      if (this.graph.group[row] === this.groupFilter) {
        const [x, y] = [layout.x(row, starts), layout.y(row, starts)];
        [left, top] = [Math.min(left, x), Math.min(top, y)];
        [right, bottom] = [Math.max(right, x + layout.metrics.width), Math.max(bottom, y + layout.metrics.height)];
      }
    }
    return left < right ? { x: left, y: top, width: right - left, height: bottom - top } : layout.bounds();
  }

  private moveTo(goal: Camera): void {
    const wasFollowing = this.isFollowing;
    this.aim = 'free';
    this.goal = goal;
    if (wasFollowing) {
      this.events.onView(this);
    }
    this.schedule();
  }

  private jumpTo(camera: Camera): void {
    this.moveTo(camera);
    this.camera = camera;
    this.goal = null;
  }

  private moveCamera(layout: LayeredLayout, elapsedMs: number): boolean {
    const goal = this.aim === 'free' ? this.goal : this.aimed(layout);
    if (!goal) {
      return false;
    }
    if (!this.isMoving || isClose(this.camera, goal)) {
      this.camera = goal;
      this.goal = null;
      return false;
    }
    this.camera = approach(this.camera, goal, this.size, 1 - Math.exp(-elapsedMs / EASE_MS));
    return true;
  }

  /** Let layers that were pushed aside glide to their places. */
  private glide(layout: LayeredLayout, elapsedMs: number): boolean {
    const targets = layout.starts();
    const n = layout.layers.length + 1;
    if (this.starts.length < n) {
      const known = this.starts;
      this.starts = targets.slice(0, Math.max(n, 2 * known.length));
      this.starts.set(known);
      this.starts.set(targets.subarray(known.length, n), known.length);
    }
    if (!this.isMoving || n > GLIDING_LAYERS) {
      this.starts.set(targets.subarray(0, n));
      return false;
    }
    const share = 1 - Math.exp(-elapsedMs / EASE_MS);
    let isGliding = this.settle(share);
    for (let i = 0; i < n; i++) {
      const away = targets[i]! - this.starts[i]!;
      if (away < 0 || Math.abs(away) * this.camera.zoom < 0.3) {
        this.starts[i] = targets[i]!;
      } else {
        this.starts[i] = this.starts[i]! + away * share;
        isGliding = true;
      }
    }
    return isGliding;
  }

  /** Bring boxes nearer to their places in a new arrangement. */
  private settle(share: number): boolean {
    const { shift } = this;
    if (!shift) {
      return false;
    }
    let farthest = 0;
    for (let i = 0; i < shift.length; i++) {
      shift[i] = shift[i]! * (1 - share);
      farthest = Math.max(farthest, Math.abs(shift[i]!));
    }
    if (farthest * this.camera.zoom < 0.3) {
      this.shift = null;
    }
    return this.shift !== null;
  }

  // ---- drawing

  private draw(layout: LayeredLayout, clockMs: number): boolean {
    const { pen, size } = this;
    const ratio = window.devicePixelRatio || 1;
    const scene = this.scene(layout, clockMs);
    const boxes: number[] = [];
    const inView = (size.width * size.height) / (layout.linePitch * layout.slotPitch * this.camera.zoom ** 2);
    if (!this.showsGroups && layout.n > BOXES_MAX && inView > BOXES_MAX) {
      this.drawImage(scene, ratio);
      return false;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, size.width, size.height);
    drawGrid(pen, scene);
    // The slack covers outlines, captions and layers on their way.
    const area = seen(this.camera, size);
    if (this.shift) {
      boxes.push(...Array(layout.n).keys());
    } else {
      const around = { x: area.x - 60, y: area.y - 60, width: area.width + 120, height: area.height + 120 };
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
    const { width, height } = this.element;
    if (!this.image || !this.imageData) {
      this.image = makeImage(width, height);
      this.imageData = new ImageData(new Uint8ClampedArray(this.image.pixels.buffer as ArrayBuffer), width, height);
    }
    rasterTasks(this.image, scene, ratio);
    this.pen.putImageData(this.imageData, 0, 0);
  }

  private scene(layout: LayeredLayout, clockMs: number): Scene {
    const kind = this.showsGroups ? 'group' : 'task';
    return {
      graph: this.graph,
      layout,
      starts: this.starts,
      shift: this.shift,
      camera: this.camera,
      view: this.size,
      theme: this.theme,
      now: this.graph.time(clockMs),
      clockMs,
      isMoving: this.isMoving,
      hovered: this.hovered,
      selected: this.selection?.kind === kind && this.selection.index < layout.n ? this.selection.index : NONE,
      lit: this.light()
    };
  }

  /** What is lit while the rest is dimmed: relatives of what is under the pointer, or what a filter asks for. */
  private light(): ((box: number) => boolean) | null {
    const { graph } = this;
    const key = [graph.version, this.showsGroups, this.hovered, this.stateFilter, this.groupFilter].join(' ');
    if (key !== this.litKey) {
      this.litKey = key;
      this.lit = null;
      const state = this.stateFilter;
      if (this.hovered !== NONE && this.showsGroups) {
        const near = groupNeighbours({ graph }, this.hovered);
        this.lit = near.size > 1 ? box => near.has(box) : null;
      } else if (this.hovered !== NONE) {
        const near = graph.relatives(this.hovered, RELATIVES_MAX);
        this.lit = near.size > 1 ? row => near.has(row) : null;
      } else if (state !== null) {
        this.lit = this.showsGroups
          ? box => graph.groups.list[box]!.counts[state]! > 0
          : row => graph.state[row] === state;
      } else if (this.groupFilter !== NONE && !this.showsGroups) {
        const group = this.groupFilter;
        this.lit = row => graph.group[row] === group;
      }
    }
    return this.lit;
  }

  // ---- pointer, wheel, keys

  private listen(): void {
    const { element } = this;
    const { signal } = this.abort;
    const on = <K extends keyof HTMLElementEventMap>(type: K, handler: (event: HTMLElementEventMap[K]) => void) =>
      element.addEventListener(type, handler, { signal, passive: type !== 'wheel' });
    on('pointerdown', event => {
      if (event.button === 0) {
        element.setPointerCapture(event.pointerId);
        this.drag = { x: event.offsetX, y: event.offsetY, moved: false };
      }
    });
    on('pointermove', event => this.pointerMoved(event));
    on('pointerup', event => {
      const wasClick = this.drag && !this.drag.moved;
      this.drag = null;
      element.classList.remove('cm-dragging');
      if (wasClick) {
        this.choose(this.boxAt(event.offsetX, event.offsetY));
      }
    });
    on('pointerleave', () => this.hover(NONE, 0, 0));
    on('dblclick', event => {
      const box = this.boxAt(event.offsetX, event.offsetY);
      if (box !== NONE) {
        this.events.onOpen(this.picked(box));
      }
    });
    on('wheel', event => this.wheel(event));
    on('keydown', event => this.key(event));
    document.addEventListener('visibilitychange', () => this.schedule(), { signal });
  }

  private pointerMoved(event: PointerEvent): void {
    const { drag } = this;
    if (!drag) {
      this.hover(this.boxAt(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
      return;
    }
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
    if (drag.moved || Math.hypot(dx, dy) > 4) {
      this.hover(NONE, 0, 0);
      this.element.classList.add('cm-dragging');
      this.jumpTo(panBy(this.camera, dx, dy));
      this.drag = { x: event.offsetX, y: event.offsetY, moved: true };
    }
  }

  private wheel(event: WheelEvent): void {
    const isOurs = this.options.wheel === 'always' || event.ctrlKey || document.activeElement === this.element;
    if (!isOurs) {
      return;
    }
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 18 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.jumpTo(panBy(this.camera, -(event.deltaX + (event.shiftKey ? event.deltaY : 0)) * unit, event.shiftKey ? 0 : -event.deltaY * unit));
    } else {
      this.jumpTo(zoomAt(this.camera, event.offsetX, event.offsetY, Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0018))));
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const actions: Record<string, () => void> = {
      ArrowRight: () => this.walk('right', 1),
      ArrowLeft: () => this.walk('right', -1),
      ArrowDown: () => this.walk('down', 1),
      ArrowUp: () => this.walk('down', -1),
      Enter: () => this.selection && this.events.onOpen(this.selection),
      Escape: () => this.choose(NONE),
      '+': () => this.zoom(1.4),
      '=': () => this.zoom(1.4),
      '-': () => this.zoom(1 / 1.4),
      f: () => this.fit(),
      l: () => this.follow(true),
      g: () => this.setShow(this.showsGroups ? 'tasks' : 'groups')
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action) {
      event.preventDefault();
      event.stopPropagation();
      action();
    }
  }

  /** Along the flow: from the chosen box along its dependencies. Across it: to its neighbour. */
  private walk(axis: Direction, step: 1 | -1): void {
    const { layout } = this.arrangement();
    if (!layout.n) {
      return;
    }
    const kind = this.showsGroups ? 'group' : 'task';
    if (this.selection?.kind !== kind || this.selection.index >= layout.n) {
      this.choose(0);
      return;
    }
    const from = this.selection.index;
    if (axis !== layout.direction) {
      this.choose(layout.neighbour(from, step), from);
      return;
    }
    const candidates = this.showsGroups ? this.groupSteps(from, step) : this.rowSteps(from, step);
    const away = (box: number) => Math.abs(layout.slot[box]! - layout.slot[from]!);
    this.choose(candidates.sort((a, b) => away(a) - away(b) || a - b)[0] ?? NONE, from);
  }

  private rowSteps(row: number, step: 1 | -1): number[] {
    const { graph } = this;
    if (step > 0) {
      return [...graph.dependents(row), ...graph.children(row)];
    }
    const others = [graph.parent[row]! - 1, graph.previousCall[row]!].filter(other => other >= 0);
    const dependencies = [...graph.dependencies(row)];
    return dependencies.length ? dependencies : others;
  }

  private groupSteps(group: number, step: 1 | -1): number[] {
    const { edges } = this.graph.groups;
    return step > 0
      ? edges.filter(edge => edge.source === group && edge.target !== group).map(edge => edge.target)
      : edges.filter(edge => edge.target === group && edge.source !== group).map(edge => edge.source);
  }

  private picked(index: number): Picked {
    return { kind: this.showsGroups ? 'group' : 'task', index };
  }

  private choose(box: number, otherwise: number = NONE): void {
    const index = box === NONE ? otherwise : box;
    const picked = index === NONE ? null : this.picked(index);
    this.select(picked);
    this.events.onSelect(picked);
  }

  private boxAt(px: number, py: number): number {
    const { layout } = this.arrangement();
    return layout.at(toWorld(this.camera, px, py));
  }

  private hover(box: number, px: number, py: number): void {
    if (box === NONE) {
      this.tooltip.hide();
    } else {
      const now = this.graph.time(performance.now());
      const lines = this.showsGroups ? describeGroup(this.graph, box) : describeRow(this.graph, box, now);
      this.tooltip.show(lines, px, py, this.size);
    }
    if (box !== this.hovered) {
      this.hovered = box;
      this.element.classList.toggle('cm-over', box !== NONE);
      this.schedule();
    }
  }
}
