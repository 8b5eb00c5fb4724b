// Groups of rows: one for each cell, function and kind of row, on request also for each machine. They keep a graph of a
// hundred thousand tasks readable.
//
// A group's numbers are updated as rows come and change, so that drawing a group of a million tasks costs as much as
// drawing one of ten.

import { Kind, N_STATES, State } from '../protocol/messages';

/** Cells of a group's waffle; a bucket stands for one row until there are more rows than this. */
export const WAFFLE_CELLS = 108;

/**
 * The states of a group's rows in order of submission, in at most `WAFFLE_CELLS` buckets of equal size.
 *
 * When the rows outgrow the buckets, neighbours are merged and each bucket stands for twice as many rows.
 */
export class Waffle {
  /** Rows per bucket, a power of two. */
  bucketSize = 1;
  nRows = 0;
  /** `counts[bucket * N_STATES + state]` rows. */
  readonly counts = new Uint32Array(WAFFLE_CELLS * N_STATES);

  get nBuckets(): number {
    return Math.ceil(this.nRows / this.bucketSize);
  }

  /** Add the next row; returns its rank. */
  add(state: State): number {
    const rank = this.nRows++;
    if (this.nRows > WAFFLE_CELLS * this.bucketSize) {
      this.merge();
    }
    this.at(rank, state, 1);
    return rank;
  }

  /** Take away the last row. */
  removeLast(state: State): void {
    this.at(--this.nRows, state, -1);
  }

  /** So few rows would have smaller buckets: many were removed, and the waffle should be made again. */
  get isTooCoarse(): boolean {
    return this.bucketSize > 1 && 2 * this.nRows <= WAFFLE_CELLS * this.bucketSize;
  }

  change(rank: number, from: State, to: State): void {
    this.at(rank, from, -1);
    this.at(rank, to, 1);
  }

  private at(rank: number, state: State, by: number): void {
    const i = Math.floor(rank / this.bucketSize) * N_STATES + state;
    this.counts[i] = this.counts[i]! + by;
  }

  private merge(): void {
    const { counts } = this;
    const half = WAFFLE_CELLS / 2;
    for (let bucket = 0; bucket < WAFFLE_CELLS; bucket++) {
      for (let state = 0; state < N_STATES; state++) {
        const low = 2 * bucket * N_STATES + state;
        counts[bucket * N_STATES + state] = bucket < half ? counts[low]! + counts[low + N_STATES]! : 0;
      }
    }
    this.bucketSize *= 2;
  }
}

/** Rows of one cell that run the same function (or are its puts). */
export class Group {
  n = 0;
  readonly counts = new Uint32Array(N_STATES);
  waffle = new Waffle();
  /** Seconds spent in rows that ended, and how many those are. */
  seconds = 0;
  nTimed = 0;
  bytes = 0;

  constructor(
    readonly index: number,
    readonly fn: number,
    readonly cell: number,
    readonly kind: Kind,
    readonly firstRow: number,
    /** The machine, if each group is of one machine. */
    readonly node: number,
    /** Of members of a group of actors: what they run, without a rank; '' for others. */
    readonly members: string
  ) {}

  get ended(): number {
    return this.counts[State.finished]! + this.counts[State.failed]! + this.counts[State.cancelled]!;
  }

  get meanSeconds(): number {
    return this.nTimed ? this.seconds / this.nTimed : Number.NaN;
  }
}

/** An edge between groups: `n` edges between their rows. */
export interface GroupEdge {
  source: number;
  target: number;
  n: number;
}

function keyOf({ cell, fn, kind, node, members }: Pick<Group, 'cell' | 'fn' | 'kind' | 'node' | 'members'>): string {
  return `${cell}:${members || fn}:${kind}:${node}`;
}

/** All groups, in order of appearance. */
export class Groups {
  readonly list: Group[] = [];
  edges: GroupEdge[] = [];
  private readonly byKey = new Map<string, Group>();
  private readonly edgeByKey = new Map<string, GroupEdge>();

  /** The group of such a row, made on demand. */
  find(fn: number, cell: number, kind: Kind, node: number, row: number, members: string): Group {
    const key = keyOf({ cell, fn, kind, node, members });
    let group = this.byKey.get(key);
    if (!group) {
      group = new Group(this.list.length, fn, cell, kind, row, node, members);
      this.byKey.set(key, group);
      this.list.push(group);
    }
    return group;
  }

  disconnect(source: number, target: number): void {
    this.edgeByKey.get(`${source}:${target}`)!.n--;
  }

  /** Forget edges without rows, and the groups at the end of the list that have become empty. */
  prune(): void {
    for (let last = this.list.at(-1); last && !last.n; last = this.list.at(-1)) {
      this.byKey.delete(keyOf(last));
      this.list.pop();
    }
    this.pruneEdges();
  }

  pruneEdges(): void {
    for (const { source, target } of this.edges.filter(({ n }) => !n)) {
      this.edgeByKey.delete(`${source}:${target}`);
    }
    this.edges = this.edges.filter(({ n }) => n > 0);
  }

  /**
   * Make the waffles of `stale` groups, by default of those that are too coarse, again from the columns of the first
   * `n` rows.
   */
  refine(
    n: number,
    groupOf: Uint32Array,
    state: Uint8Array,
    rank: Uint32Array,
    stale = new Set(this.list.filter(({ waffle }) => waffle.isTooCoarse))
  ): void {
    stale.forEach(group => {
      group.waffle = new Waffle();
    });
    for (let row = 0; stale.size && row < n; row++) {
      const group = this.list[groupOf[row]!]!;
      if (stale.has(group)) {
        rank[row] = group.waffle.add(state[row] as State);
      }
    }
  }

  connect(source: number, target: number): void {
    const key = `${source}:${target}`;
    const edge = this.edgeByKey.get(key);
    if (edge) {
      edge.n++;
    } else {
      const made = { source, target, n: 1 };
      this.edgeByKey.set(key, made);
      this.edges.push(made);
    }
  }
}
