// graph/: the view of the graph; never where boxes stand or how they look (`layout/`, `draw/`).

// The graph on a canvas element. `layout/` decides where boxes are and how the camera moves, `draw/` how they look;
// this file brings these together and decides when to draw.

import { drawGroups } from '../../draw/groups';
import { isAnimated as groupsAnimated } from '../../draw/groups';
import { drawGrid, isSettled, type Scene } from '../../draw/scene';
import { isAnimated as tasksAnimated } from '../../draw/tasks';
import { drawTasks } from '../../draw/tasks';
import { __ } from '../../i18n/translate';
import { GroupArrangement, TaskArrangement } from '../../layout/arrange';
import { panBy, seen, toWorld, zoomAt } from '../../layout/camera';
import { Glide } from '../../layout/glide';
import type { LayeredLayout } from '../../layout/layered';
import type { Direction } from '../../layout/metrics';
import { EASE_MS, type Sight, Viewpoint } from '../../layout/viewpoint';
import { walk } from '../../layout/walk';
import type { TaskGraph } from '../../model/graph';
import { regroup } from '../../model/membership';
import { NONE } from '../../model/rows';
import { CanvasView } from '../shared/canvas';
import { describeGroup, describeRow } from '../shared/describe';
import type { CanvasOptions, Picked, Picture, Show } from '../shared/picture';
import { Overview } from './overview';
import { boundsOf, frontOf, groupBounds, litBoxes, nearest } from './sight';

/** With more rows the graph shows groups unless the reader chooses tasks. */
export const GROUP_FROM = 400;
/** With more boxes in view the graph is drawn as an image. */
const BOXES_MAX = 2500;
/** The pace of turning marks; everything else moves at the display's pace. */
const IDLE_FRAME_MS = 40;
/** The time in which a new picture fades in. */
const FADE_MS = 160;
/** Outlines, captions and moving layers reach this far beyond their boxes. */
const SLACK = 60;

export interface CanvasEvents {
  /** A box was chosen, by pointer or key; null: none is. */
  onSelect(picked: Picked | null): void;
  /** Enter or a double click. */
  onOpen(picked: Picked): void;
  /** What is shown, or whether the view follows the work, has changed. */
  onView(canvas: GraphCanvas): void;
}

export class GraphCanvas extends CanvasView implements Picture {
  private readonly viewpoint = new Viewpoint();
  private readonly glide = new Glide();
  private tasks: TaskArrangement;
  private groups: GroupArrangement;
  private readonly overview = new Overview();

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
      label: __(
        'Task graph. Arrow keys walk along dependencies, Enter opens the card, plus and minus zoom, F fits, L follows.'
      )
    });
    this.tasks = new TaskArrangement(graph);
    this.groups = new GroupArrangement(graph);
    this.start(this.gestures(), options.wheel);
  }

  // ---- the interface

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
      this.choose(NONE); // its number belongs to another group now
    }
    this.groupFilter = NONE;
    this.hovered = NONE;
    if (this.graph.isStill) {
      this.fit(); // there is no work to follow
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
      this.viewpoint.reveal(this.arranged().rect(box));
    }
    this.viewChanged();
  }

  /** Something lies over the lower or the right part of the graph. */
  cover(right: number, bottom: number): void {
    this.viewpoint.cover(right, bottom);
    const box = this.chosen();
    if (this.viewpoint.aim === 'free' && box !== NONE) {
      this.viewpoint.reveal(this.arranged().rect(box));
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
    this.overview.forget();
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
      regroup(graph, this.byMachine);
    }
    const arrangement = showsGroups ? this.groups : this.tasks;
    const before = arrangement.layout;
    arrangement.update(this.options.isInline ? 'down' : this.viewpoint.direction());
    const { layout, generation } = arrangement;
    const isSame = shown.showsGroups === showsGroups && shown.epoch === graph.epoch;
    if (!isSame || shown.generation !== generation) {
      const isFirst = shown.epoch === NONE;
      this.shown = { showsGroups, epoch: graph.epoch, generation };
      this.glide.begin(layout, isSame);
      if (isSame) {
        this.keepInPlace(before);
      } else {
        // The eye cannot follow from the earlier picture to this one, so this one fades in.
        if (!isFirst && !matchMedia('(prefers-reduced-motion: reduce)').matches) {
          this.element.animate([{ opacity: 0.15 }, { opacity: 1 }], FADE_MS);
        }
        this.hovered = NONE;
        this.viewpoint.aim = this.viewpoint.aim === 'fit' ? 'fit' : 'follow';
        this.viewpoint.begin(this.sight(layout));
      }
      this.events.onView(this);
    }
    return layout;
  }

  /** After a new arrangement, move the camera with the box that the reader looks at. */
  private keepInPlace(before: LayeredLayout): void {
    const { viewpoint, glide } = this;
    if (viewpoint.aim !== 'free' || !glide.shift) {
      return;
    }
    const { selection } = this;
    const isChosen = selection?.kind === (this.showsGroups ? 'group' : 'task') && selection.index < before.n;
    const box = isChosen ? selection.index : nearest(before, seen(viewpoint.target, viewpoint.size));
    if (box !== NONE) {
      const { target } = viewpoint;
      viewpoint.moveTo({ ...target, x: target.x - glide.shift[2 * box]!, y: target.y - glide.shift[2 * box + 1]! });
    }
  }

  private sight(layout: LayeredLayout): Sight | null {
    if (!layout.n) {
      return null;
    }
    const { running, queued, waiting } = this.graph.counts;
    const isOver = this.options.isInline === true && running + queued + waiting === 0;
    return {
      bounds:
        this.groupFilter === NONE
          ? boundsOf(this.graph, layout, this.showsGroups)
          : groupBounds(this.graph, layout, this.groupFilter),
      direction: layout.direction,
      isOverview: isOver || (!this.showsGroups && layout.n > 2 * GROUP_FROM),
      front: () => frontOf(this.graph, layout, this.showsGroups)
    };
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

  /** Draw; true if the picture is animated. */
  private draw(scene: Scene): boolean {
    const { pen } = this;
    const { layout, camera, view } = scene;
    const ratio = window.devicePixelRatio || 1;
    const inView = (view.width * view.height) / (layout.linePitch * layout.slotPitch * camera.zoom ** 2);
    if (!this.showsGroups && layout.n > BOXES_MAX && inView > BOXES_MAX) {
      this.overview.draw(pen, scene, ratio);
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

  /** Which boxes are lit while the others are dimmed; computed again when an input of it has changed. */
  private light(): ((box: number) => boolean) | null {
    const { graph, hovered, stateFilter, brush, groupFilter, showsGroups } = this;
    const key = [graph.version, showsGroups, hovered, stateFilter, brush, groupFilter].join(' ');
    if (key !== this.litKey) {
      this.litKey = key;
      this.lit = litBoxes(graph, { hovered, stateFilter, brush, groupFilter, showsGroups });
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
