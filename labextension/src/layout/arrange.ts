// layout/: positions and the camera; never the page, nor how things look, which is `draw/`.

// Keeps the two layouts of a graph, of its rows and of its groups, up to date with the model.

import type { TaskGraph } from '../model/graph';
import { NONE } from '../model/rows';
import { type Outlook } from './bands';
import { LayeredLayout } from './layered';
import { type Direction, GROUP_METRICS, slotsFor, TASK_METRICS } from './metrics';

/** How many rows are examined to estimate the room that a block needs. */
const OUTLOOK_ROWS = 200;
/** A cramped layout is made again when it has grown by this share. */
const CRAMPED_GROWTH = 1.5;

const GROUP_SLOTS: Record<Direction, number> = { right: 5, down: 3 };
/** By machine, so that four of them lie beside each other. */
const MACHINE_SLOTS = 5.5;

/** A layout that follows a growing graph and begins again when the graph does. */
abstract class Follower {
  layout: LayeredLayout;
  /** Changes whenever the layout is a new one. */
  generation = 0;
  private epoch = NONE;

  constructor(protected readonly graph: TaskGraph) {
    this.layout = this.fresh('down');
  }

  /** Place the boxes that have appeared since the last call, in a picture that flows in this direction. */
  update(direction: Direction): void {
    if (this.epoch !== this.graph.epoch || direction !== this.layout.direction || this.isOutgrown()) {
      this.epoch = this.graph.epoch;
      this.generation++;
      this.layout = this.fresh(direction);
    }
    while (this.layout.nPlaced < this.count()) {
      this.place(this.layout.nPlaced);
    }
    this.layout.n = this.count();
  }

  protected abstract fresh(direction: Direction): LayeredLayout;
  protected abstract count(): number;
  protected abstract isOutgrown(): boolean;
  protected abstract place(box: number): void;
}

/** A box for each row: dependencies, the submitting task, and the actor's previous call count as parents. */
export class TaskArrangement extends Follower {
  /** Edges seen so far; a late one may show that a row was placed too far left. */
  private nEdges = 0;
  private nViolated = 0;
  /** The number of rows when everything was last arranged. */
  private nArranged = 0;

  override update(direction: Direction): void {
    super.update(direction);
    const { graph, layout } = this;
    for (; this.nEdges < graph.nEdges; this.nEdges++) {
      const source = graph.source[this.nEdges]!;
      const target = graph.target[this.nEdges]!;
      const isSame = layout.bandOf(source) === layout.bandOf(target);
      this.nViolated += Number(isSame && layout.depth[source]! >= layout.depth[target]!);
    }
  }

  protected fresh(direction: Direction): LayeredLayout {
    this.nEdges = this.nViolated = 0;
    this.nArranged = this.graph.n;
    return new LayeredLayout(TASK_METRICS[direction], slotsFor(this.graph.n, direction), direction);
  }

  protected count(): number {
    return this.graph.n;
  }

  protected isOutgrown(): boolean {
    // Edges that came after their rows are taken into account once, when the kernel has caught up.
    const isLate = this.nViolated > 0 && this.graph.behind === 0;
    const isCramped = this.layout.isCramped && this.graph.n >= CRAMPED_GROWTH * this.nArranged;
    return isLate || isCramped || slotsFor(this.graph.n, this.layout.direction) > this.layout.nSlots;
  }

  protected place(row: number): void {
    const { graph, layout } = this;
    const block = graph.cell[row]!;
    const outlook = layout.knows(block) ? undefined : this.outlook(row, block);
    layout.add({ parents: this.parents(row), continues: graph.previousCall[row]!, block }, outlook);
  }

  private parents(row: number): number[] {
    const { graph } = this;
    const parents: number[] = [];
    for (const source of graph.dependencies(row)) {
      if (source < row) {
        parents.push(source);
      }
    }
    const submitter = graph.parent[row]! - 1;
    if (!parents.length && submitter >= 0 && submitter < row) {
      parents.push(submitter);
    }
    return parents;
  }

  /** What the rows that are known already say of a block that begins with `first`. */
  private outlook(first: number, block: number): Outlook {
    const { graph } = this;
    const depths = new Map<number, number>();
    const nAtDepth: number[] = [];
    const feeders = new Set<number>();
    for (let row = first; row < Math.min(graph.n, first + OUTLOOK_ROWS); row++) {
      if (graph.cell[row] !== block) {
        continue;
      }
      let depth = 0;
      for (const before of [...this.parents(row), graph.previousCall[row]!]) {
        depth = Math.max(depth, (depths.get(before) ?? -1) + 1);
        if (before >= 0 && before < first) {
          feeders.add(before);
        }
      }
      depths.set(row, depth);
      nAtDepth[depth] = (nAtDepth[depth] ?? 0) + 1;
    }
    return { nSlots: Math.max(...nAtDepth), feeders };
  }
}

/**
 * A box for each group; its parents are the groups that fed it when it appeared. By machine, each machine has its own
 * part.
 */
export class GroupArrangement extends Follower {
  protected fresh(direction: Direction): LayeredLayout {
    return new LayeredLayout(
      GROUP_METRICS[direction],
      this.graph.byMachine ? MACHINE_SLOTS : GROUP_SLOTS[direction],
      direction
    );
  }

  protected count(): number {
    return this.graph.groups.list.length;
  }

  protected isOutgrown(): boolean {
    return false;
  }

  protected place(box: number): void {
    const { groups, byMachine } = this.graph;
    const parents = groups.edges
      .filter(({ source, target }) => target === box && source < box)
      .map(({ source }) => source);
    const { cell, node } = groups.list[box]!;
    this.layout.add(
      { parents, continues: NONE, block: byMachine ? node : cell },
      { nSlots: 1, feeders: new Set(parents), isBeside: byMachine }
    );
  }
}
