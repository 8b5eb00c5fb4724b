// The layered layout. Each block (a cell's tasks) is laid out by itself: layers along the flow by depth, slots across
// it within a layer. Blocks follow each other along the flow in the order of time, small ones side by side on a shelf.
//
// The layout is incremental and stable: a box gets its place once, when it appears. Its layer is one more than its
// deepest parent's in its block. Its slot is the free one nearest to the middle of its parents, on a half-slot grid,
// which draws chains as straight lines and reductions as trees. A full layer gets another line of slots, which pushes
// later layers on. A block begins on the open shelf if it fits and needs nothing that lies there, so that edges between
// blocks go with the flow. Everything is arranged again only when the number of boxes passes one of a few marks, when a
// block has outgrown its place on a shelf, or when the panel turns from high to wide. Boxes glide to their new places
// (`glide.ts`).
//
// General graph layouts were measured and refused: dagre takes 21 s for 1,000 nodes, elk 2 to 5 s; this one takes 1 ms
// for 1,000 and some 30 ms for 100,000.

import { NONE } from '../model/rows';
import {
  type Appearance,
  type Band,
  freeSlot,
  lastUpTo,
  type Layer,
  type Line,
  lowerBound,
  type Outlook,
  type Shelf
} from './bands';
import { type Direction, type Metrics, type Point, type Rect } from './metrics';

/** A shelf on which a block has more lines than this is closed. */
const SHELF_LINES_MAX = 4;
/** A block on a part of a shelf that has more lines than this in a layer should have a shelf of its own. */
const NARROW_LINES_MAX = 3;

export class LayeredLayout {
  /** The number of boxes. Boxes from `n` to `nPlaced` keep their places from before the graph went back in time. */
  n = 0;
  nPlaced = 0;
  /** Each box's layer, the rank of that within its block, and the box's place in it. */
  layer = new Int32Array(1024);
  depth = new Int32Array(1024);
  line = new Int32Array(1024);
  slot = new Float32Array(1024);
  readonly layers: Layer[] = [];
  readonly shelves: Shelf[] = [];
  /** The first box of each block. */
  readonly blockStarts: number[] = [];
  /** Some block would have a better place if everything were arranged again. */
  isCramped = false;
  /** Changes when a layer gets a line, which moves the layers after it. */
  version = 0;
  /** Distances from slot to slot across the flow, and from line to line along it. */
  readonly slotPitch: number;
  readonly linePitch: number;
  /** A box's size in the same two directions. */
  readonly sizeAlong: number;
  readonly sizeAcross: number;
  private readonly bands = new Map<number, Band>();
  private start = new Float64Array(64);
  private startVersion = -1;
  private end = 0;
  private last = 0;

  constructor(
    readonly metrics: Metrics,
    readonly nSlots: number,
    readonly direction: Direction
  ) {
    const { width, height, gapSlot, gapLine } = metrics;
    [this.sizeAlong, this.sizeAcross] = direction === 'right' ? [width, height] : [height, width];
    this.slotPitch = this.sizeAcross + gapSlot;
    this.linePitch = this.sizeAlong + gapLine;
  }

  /** Whether the next box of this block is not its first: no outlook is needed. */
  knows(block: number): boolean {
    return this.bands.has(block);
  }

  /** Place the next box. */
  add({ parents, continues, block }: Appearance, outlook?: Outlook): void {
    const box = this.nPlaced++;
    this.n = this.nPlaced;
    this.reserve(this.n);
    const band = this.bands.get(block) ?? this.begin(box, block, outlook);
    let depth = 0;
    let slot = 0;
    let nNear = 0;
    for (const parent of parents) {
      const other = this.bandOf(parent);
      if (other.shelf === band.shelf) {
        depth = Math.max(depth, this.depth[parent]! + 1);
      }
      if (other === band) {
        slot += this.slot[parent]!;
        nNear++;
      }
    }
    slot = nNear ? Math.floor((2 * slot) / nNear) / 2 : band.first;
    if (continues !== NONE && this.bandOf(continues) === band) {
      depth = Math.max(depth, this.depth[continues]! + 1);
      slot = this.slot[continues]!;
    }
    const id = this.layerOf(band, depth);
    if (depth === 0) {
      this.addRoot(box, id, band);
      return;
    }
    const layer = this.layers[id]!;
    for (let i = layer.open; ; i++) {
      const line = this.lineOf(layer, i);
      const behind = freeSlot(line, slot, band.end);
      const free = behind === NONE ? freeSlot(line, band.first, band.end) : behind;
      if (free !== NONE) {
        this.put(box, id, depth, i, free);
        return;
      }
      layer.open = i + 1;
    }
  }

  /** Where each layer begins along the flow. */
  starts(): Float64Array {
    if (this.startVersion !== this.version) {
      if (this.start.length < this.layers.length) {
        this.start = new Float64Array(2 * this.layers.length);
      }
      const { gapLine, gapLayer, gapShelf } = this.metrics;
      let at = 0;
      for (const shelf of this.shelves) {
        shelf.begin = at;
        shelf.length = 0;
        for (const { layers } of shelf.bands) {
          let behind = at;
          for (const id of layers) {
            this.start[id] = behind;
            behind += this.layers[id]!.lines.length * this.linePitch - gapLine + gapLayer;
          }
          shelf.length = Math.max(shelf.length, behind - gapLayer - at);
        }
        this.end = at + shelf.length;
        at = this.end + gapShelf;
      }
      this.startVersion = this.version;
    }
    return this.start;
  }

  bandOf(box: number): Band {
    return this.layers[this.layer[box]!]!.band;
  }

  /** The top left corner of a box, given the (possibly gliding) starts of the layers. */
  x(box: number, starts: Float64Array): number {
    return this.direction === 'right' ? this.along(box, starts) : this.slot[box]! * this.slotPitch;
  }

  y(box: number, starts: Float64Array): number {
    return this.direction === 'right' ? this.slot[box]! * this.slotPitch : this.along(box, starts);
  }

  /** Where a box begins along the flow. */
  along(box: number, starts: Float64Array): number {
    return starts[this.layer[box]!]! + this.line[box]! * this.linePitch;
  }

  /** A box where it lies in the end. */
  rect(box: number): Rect {
    const starts = this.starts();
    const { width, height } = this.metrics;
    return { x: this.x(box, starts), y: this.y(box, starts), width, height };
  }

  bounds(): Rect {
    this.starts();
    const across = this.n ? this.last * this.slotPitch + this.sizeAcross : 0;
    return this.direction === 'right'
      ? { x: 0, y: 0, width: this.end, height: across }
      : { x: 0, y: 0, width: across, height: this.end };
  }

  /** The box at a point, or NONE. */
  at({ x, y }: Point): number {
    let found = NONE;
    this.visible({ x, y, width: 0, height: 0 }, box => {
      found = box;
    });
    return found;
  }

  /** Call `visit` for each box that touches the rectangle. */
  visible(view: Rect, visit: (box: number) => void): void {
    const starts = this.starts();
    const { shelves } = this;
    const [along, across, lengthAlong, lengthAcross] =
      this.direction === 'right'
        ? [view.x, view.y, view.width, view.height]
        : [view.y, view.x, view.height, view.width];
    const from = (across - this.sizeAcross) / this.slotPitch;
    const to = (across + lengthAcross) / this.slotPitch;
    for (
      let s = lastUpTo(shelves.length, i => shelves[i]!.begin, along);
      s < shelves.length && shelves[s]!.begin <= along + lengthAlong;
      s++
    ) {
      for (const { layers } of shelves[s]!.bands) {
        for (let k = lastUpTo(layers.length, i => starts[layers[i]!]!, along); k < layers.length; k++) {
          const start = starts[layers[k]!]!;
          if (start > along + lengthAlong) {
            break;
          }
          const { lines } = this.layers[layers[k]!]!;
          const first = Math.max(0, Math.ceil((along - start - this.sizeAlong) / this.linePitch));
          const last = Math.min(lines.length - 1, Math.floor((along + lengthAlong - start) / this.linePitch));
          for (let i = first; i <= last; i++) {
            const { slots, boxes } = lines[i]!;
            for (let at = lowerBound(slots, from); at < slots.length && slots[at]! <= to; at++) {
              if (boxes[at]! < this.n) {
                visit(boxes[at]!);
              }
            }
          }
        }
      }
    }
  }

  /** The next box in the same layer across the flow, then in the block beside, or NONE. */
  neighbour(box: number, step: 1 | -1): number {
    const { band, lines } = this.layers[this.layer[box]!]!;
    const i = this.line[box]!;
    const { slots, boxes } = lines[i]!;
    const at = lowerBound(slots, this.slot[box]!);
    const next =
      this.nearest(step > 0 ? boxes.slice(at + 1) : boxes.slice(0, at), step) ??
      this.nearest(lines[i + step]?.boxes, step);
    if (next !== undefined) {
      return next;
    }
    const { bands } = this.shelves[band.shelf]!;
    const beside = bands[bands.indexOf(band) + step];
    return beside ? this.boxIn(beside, this.depth[box]!, step) : NONE;
  }

  /** A box of the next shelf along the flow, or NONE. */
  beyond(box: number, step: 1 | -1): number {
    const band = this.shelves[this.bandOf(box).shelf + step]?.bands[0];
    return band ? this.boxIn(band, step > 0 ? 0 : band.layers.length - 1, 1) : NONE;
  }

  /** The first box in a row of neighbours, in the direction of this step. */
  private nearest(boxes: readonly number[] = [], step: 1 | -1): number | undefined {
    const there = boxes.filter(box => box < this.n);
    return step > 0 ? there[0] : there.at(-1);
  }

  private boxIn({ layers }: Band, depth: number, step: 1 | -1): number {
    const { lines } = this.layers[layers[Math.min(depth, layers.length - 1)]!]!;
    return this.nearest(lines[0]?.boxes, step) ?? NONE;
  }

  /** A place for a block: beside others if it fits there and none of them feeds it, else on a shelf of its own. */
  private begin(
    box: number,
    block: number,
    { nSlots, feeders, isBeside }: Outlook = { nSlots: this.nSlots, feeders: new Set() }
  ): Band {
    const shelf = this.shelves.length - 1;
    const before = this.shelves[shelf]?.bands.at(-1);
    const first = before ? before.last + 1.5 : 0;
    const isGood =
      isBeside || (before && this.isLow(before) && ![...feeders].some(other => this.bandOf(other).shelf === shelf));
    const fits = before && first + nSlots <= this.nSlots && isGood;
    const at = fits ? first : 0;
    const band: Band = {
      shelf: fits ? shelf : shelf + 1,
      first: at,
      end: this.nSlots,
      last: at,
      layers: [],
      rootLine: 0,
      rootSlot: at
    };
    if (fits) {
      before.end = first - 0.5;
      this.shelves[shelf]!.bands.push(band);
    } else {
      this.shelves.push({ bands: [band], begin: 0, length: 0 });
    }
    this.bands.set(block, band);
    this.blockStarts.push(box);
    return band;
  }

  private isLow({ layers }: Band): boolean {
    return (
      layers.length <= SHELF_LINES_MAX &&
      layers.reduce((sum, id) => sum + this.layers[id]!.lines.length, 0) <= SHELF_LINES_MAX
    );
  }

  private layerOf(band: Band, depth: number): number {
    while (band.layers.length <= depth) {
      band.layers.push(this.layers.length);
      this.layers.push({ band, lines: [], open: 0 });
      this.version++;
    }
    return band.layers[depth]!;
  }

  private lineOf(layer: Layer, index: number): Line {
    while (layer.lines.length <= index) {
      layer.lines.push({ slots: [], boxes: [] });
      this.version++;
      this.isCramped ||= layer.lines.length > NARROW_LINES_MAX && layer.band.end - layer.band.first < this.nSlots;
    }
    return layer.lines[index]!;
  }

  /** Boxes without parents fill the first layer of their block in order. */
  private addRoot(box: number, id: number, band: Band): void {
    if (band.rootSlot + 1 > band.end) {
      band.rootLine++;
      band.rootSlot = band.first;
    }
    // Nothing but roots comes here, so behind the last one everything is free.
    this.lineOf(this.layers[id]!, band.rootLine);
    this.put(box, id, 0, band.rootLine, band.rootSlot);
    band.rootSlot++;
  }

  private put(box: number, id: number, depth: number, index: number, slot: number): void {
    const { band, lines } = this.layers[id]!;
    const line = lines[index]!;
    const at = lowerBound(line.slots, slot);
    if (at === line.slots.length) {
      line.slots.push(slot);
      line.boxes.push(box);
    } else {
      line.slots.splice(at, 0, slot);
      line.boxes.splice(at, 0, box);
    }
    this.layer[box] = id;
    this.depth[box] = depth;
    this.line[box] = index;
    this.slot[box] = slot;
    band.last = Math.max(band.last, slot);
    this.last = Math.max(this.last, slot);
  }

  private reserve(n: number): void {
    if (n <= this.depth.length) {
      return;
    }
    const grown = (column: Int32Array<ArrayBuffer>) => {
      const larger = new Int32Array(2 * n);
      larger.set(column);
      return larger;
    };
    [this.layer, this.depth, this.line] = [grown(this.layer), grown(this.depth), grown(this.line)];
    const slot = new Float32Array(2 * n);
    slot.set(this.slot);
    this.slot = slot;
  }
}
