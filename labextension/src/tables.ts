// The session as tables: which rows there are, in which order, and what stands in each column. Pure.
//
// A row is a number: a row of the graph, an actor, or a worker. Sorting goes by numbers too (texts by their rank among
// the distinct ones), so that a hundred thousand rows are put in order between two frames.

import { duration, integer, size } from './format';
import { type TaskGraph, isEnded } from './model';
import { Kind, NO_WORKER, State } from './protocol';
import { __ } from './text';
import { readyAt } from './timeline';
import { lifeInWords, stateName } from './words';

export type TableName = 'tasks' | 'objects' | 'actors' | 'workers';

export interface Column {
  key: string;
  title: string;
  /** Share of the width. */
  grow: number;
  /** Only where there is so much room, in pixels. */
  from: number;
  isNumber?: boolean;
  text(item: number): string;
  /** What it is sorted by; without it, the text. */
  value?(item: number): number;
}

export interface Table {
  items: number[];
  columns: Column[];
  /** What a search looks through. */
  words(item: number): string[];
  /** The row of the graph that is chosen with an item; NONE if there is none. */
  row(item: number): number;
  /** The state that is shown with it, as for a row of the graph. */
  state?(item: number): State;
}

export interface Order {
  key: string;
  isDescending: boolean;
}

const NONE = -1;
/** The latest first: how a table is ordered unless the reader asks otherwise. */
export const NEWEST: Order = { key: '', isDescending: true };

export function tableOf(graph: TaskGraph, name: TableName, now: number, brush: readonly [number, number] | null, filter: State | null): Table {
  const isSeen = (row: number) => !brush || graph.ranIn(row, brush);
  switch (name) {
    case 'tasks':
      return tasks(graph, now, row => graph.kind[row] !== Kind.object && (filter === null || graph.state[row] === filter) && isSeen(row));
    case 'objects':
      return objects(graph, row => isSeen(row));
    case 'actors':
      return actors(graph, brush && graph.seenIn(brush, row => graph.actor[row]! - 1));
    case 'workers':
      return workers(graph, now, brush && graph.seenIn(brush, row => graph.worker[row]!));
  }
}

function rowsWhere(graph: TaskGraph, isWanted: (row: number) => boolean): number[] {
  const rows: number[] = [];
  for (let row = 0; row < graph.n; row++) {
    if (isWanted(row)) {
      rows.push(row);
    }
  }
  return rows;
}

function actorName(graph: TaskGraph, actor: number): string {
  const label = graph.actors.get(actor);
  return label ? label.name || label.cls : '';
}

/** The names of the machines where rows ran; '' where there is only one. */
function nodeNames(graph: TaskGraph): (row: number) => string {
  return graph.isClustered ? row => (graph.worker[row] === NO_WORKER ? '' : graph.nodeName(graph.nodeOf(row))) : () => '';
}

/** Words of a row that many rows share; looked up once for each. */
function wordsOf(graph: TaskGraph): (row: number) => string[] {
  const where = nodeNames(graph);
  return row => [graph.name(row), where(row), graph.cellLabel(row)?.label ?? '', actorName(graph, graph.actor[row]! - 1), stateName(graph.state[row] as State)];
}

function tasks(graph: TaskGraph, now: number, isWanted: (row: number) => boolean): Table {
  const queued = (row: number) => {
    const started = graph.started[row]!;
    const isQueued = graph.state[row] === State.ready || graph.state[row] === State.retrying;
    return (Number.isNaN(started) ? (isQueued ? now : Number.NaN) : started) - readyAt(graph, row);
  };
  return {
    items: rowsWhere(graph, isWanted),
    words: wordsOf(graph),
    row: row => row,
    state: row => graph.state[row] as State,
    columns: [
      { key: 'name', title: __('Task'), grow: 1.6, from: 0, text: row => graph.name(row), value: rank(graph, row => graph.fn[row]!, row => graph.name(row)) },
      { key: 'cell', title: __('Cell'), grow: 0.7, from: 420, text: row => graph.cellLabel(row)?.label ?? '', value: row => graph.cell[row]! },
      { key: 'state', title: __('State'), grow: 0.9, from: 0, text: row => stateName(graph.state[row] as State), value: row => graph.state[row]! },
      { key: 'queued', title: __('Queued'), grow: 0.7, from: 520, isNumber: true, text: row => duration(Math.max(0, queued(row))), value: queued },
      { key: 'loaded', title: __('Arguments'), grow: 0.7, from: 680, isNumber: true, text: row => duration(graph.loading(row)), value: row => graph.loading(row) },
      { key: 'ran', title: __('Ran'), grow: 0.7, from: 0, isNumber: true, text: row => duration(graph.duration(row, now)), value: row => graph.duration(row, now) },
      { key: 'size', title: __('Result'), grow: 0.7, from: 460, isNumber: true, text: row => size(graph.size[row]!), value: row => graph.size[row]! },
      ...(graph.isClustered ? [{ key: 'node', title: __('Node'), grow: 0.9, from: 360, text: nodeNames(graph), value: (row: number) => (graph.worker[row] === NO_WORKER ? Number.NaN : graph.nodeOf(row)) }] : []),
      { key: 'worker', title: __('Worker'), grow: 0.7, from: 600, isNumber: true, text: row => pidOf(graph, row), value: row => graph.worker[row]! }
    ]
  };
}

function pidOf(graph: TaskGraph, row: number): string {
  const worker = graph.worker[row]!;
  return worker === NO_WORKER ? '' : String(graph.workers.get(worker)?.pid || '');
}

/** Numbers by which texts are in alphabetical order, given a number that stands for each distinct text. */
function rank(graph: TaskGraph, numberOf: (row: number) => number, textOf: (row: number) => string): (row: number) => number {
  let ranks: Map<number, number> | null = null;
  return row => {
    if (!ranks) {
      const texts = new Map<number, string>();
      for (let at = 0; at < graph.n; at++) {
        const number = numberOf(at);
        if (!texts.has(number)) {
          texts.set(number, textOf(at));
        }
      }
      const sorted = [...texts].sort(([, a], [, b]) => a.localeCompare(b));
      ranks = new Map(sorted.map(([number], at) => [number, at]));
    }
    return ranks.get(numberOf(row)) ?? NONE;
  };
}

/** Values that take room: what puts and tasks have made. */
function objects(graph: TaskGraph, isWanted: (row: number) => boolean): Table {
  const isPut = (row: number) => graph.kind[row] === Kind.object;
  return {
    items: rowsWhere(graph, row => (isPut(row) || graph.size[row]! > 0) && isWanted(row)),
    words: wordsOf(graph),
    row: row => row,
    columns: [
      { key: 'name', title: __('Made by'), grow: 1.6, from: 0, text: row => graph.name(row), value: rank(graph, row => (isPut(row) ? NONE : graph.fn[row]!), row => graph.name(row)) },
      { key: 'cell', title: __('Cell'), grow: 0.8, from: 380, text: row => graph.cellLabel(row)?.label ?? '', value: row => graph.cell[row]! },
      { key: 'size', title: __('Size'), grow: 0.8, from: 0, isNumber: true, text: row => size(graph.size[row]!), value: row => graph.size[row]! },
      { key: 'made', title: __('Made at'), grow: 0.8, from: 0, isNumber: true, text: row => duration(graph.finished[row]!), value: row => graph.finished[row]! },
      { key: 'users', title: __('Needed by'), grow: 0.8, from: 480, isNumber: true, text: row => integer(count(graph.dependents(row))), value: row => count(graph.dependents(row)) }
    ]
  };
}

function count(items: Iterable<unknown>): number {
  let n = 0;
  for (const _ of items) {
    n++;
  }
  return n;
}

function actors(graph: TaskGraph, seen: ReadonlySet<number> | null): Table {
  const calls = (actor: number) => graph.calls.get(actor);
  const open = (actor: number) => (calls(actor)?.n ?? 0) - (calls(actor)?.ended ?? 0);
  return {
    items: [...graph.actors.keys()].filter(actor => !seen || seen.has(actor)),
    words: actor => [graph.actors.get(actor)!.name, graph.actors.get(actor)!.cls, lifeInWords(graph.actors.get(actor)!)],
    row: actor => currentCall(graph, actor) ?? calls(actor)?.last ?? NONE,
    columns: [
      { key: 'name', title: __('Actor'), grow: 1.4, from: 0, text: actor => graph.actors.get(actor)!.name || graph.actors.get(actor)!.cls },
      { key: 'cls', title: __('Class'), grow: 1, from: 460, text: actor => graph.actors.get(actor)!.cls },
      { key: 'state', title: __('State'), grow: 0.8, from: 0, text: actor => lifeInWords(graph.actors.get(actor)!) },
      { key: 'now', title: __('Now'), grow: 1, from: 400, text: actor => nameOf(graph, currentCall(graph, actor)) },
      { key: 'calls', title: __('Calls'), grow: 0.6, from: 0, isNumber: true, text: actor => integer(calls(actor)?.n ?? 0), value: actor => calls(actor)?.n ?? 0 },
      { key: 'open', title: __('Open calls'), grow: 0.6, from: 0, isNumber: true, text: actor => integer(open(actor)), value: open }
    ]
  };
}

/** The call that an actor works on; the oldest if there are several. */
function currentCall(graph: TaskGraph, actor: number): number | undefined {
  let found: number | undefined;
  const calls = graph.calls.get(actor);
  let open = calls ? calls.n - calls.ended : 0;
  for (let row = calls?.last ?? NONE; row !== NONE && open > 0; row = graph.previousCall[row]!) {
    open -= Number(!isEnded(graph.state[row]!));
    found = graph.state[row] === State.running ? row : found;
  }
  return found;
}

function nameOf(graph: TaskGraph, row: number | undefined): string {
  return row === undefined ? '' : graph.name(row);
}

function workers(graph: TaskGraph, now: number, seen: ReadonlySet<number> | null): Table {
  const limit = graph.workerLimit;
  const done = new Float64Array(limit);
  const busy = new Float64Array(limit);
  const current = new Int32Array(limit).fill(NONE);
  for (let row = 0; row < graph.n; row++) {
    const worker = graph.worker[row]!;
    const seconds = graph.duration(row, now);
    if (worker !== NO_WORKER && !Number.isNaN(seconds)) {
      busy[worker] = busy[worker]! + seconds;
      done[worker] = done[worker]! + Number(isEnded(graph.state[row]!));
      current[worker] = graph.state[row] === State.running ? row : current[worker]!;
    }
  }
  const label = (worker: number) => graph.workers.get(worker)!;
  // Of processes elsewhere only what they run for this session is known.
  const life = (worker: number) =>
    lifeInWords({ ...label(worker), ...(label(worker).node ? { state: graph.nodes.get(label(worker).node)?.state === 'dead' ? 'dead' : current[worker]! < 0 ? 'idle' : 'busy' } : {}) });
  return {
    items: [...graph.workers].filter(([worker, { pid }]) => pid > 0 && (!seen || seen.has(worker))).map(([worker]) => worker),
    words: worker => [String(label(worker).pid), graph.nodeName(label(worker).node), life(worker), nameOf(graph, current[worker]! < 0 ? undefined : current[worker])],
    row: worker => current[worker]!,
    columns: [
      { key: 'pid', title: __('Process'), grow: 0.8, from: 0, text: worker => String(label(worker).pid), value: worker => label(worker).pid },
      { key: 'state', title: __('State'), grow: 0.8, from: 0, text: life },
      ...(graph.isClustered ? [{ key: 'node', title: __('Node'), grow: 0.9, from: 0, text: (worker: number) => graph.nodeName(label(worker).node) }] : []),
      { key: 'now', title: __('Runs'), grow: 1.4, from: 0, text: worker => (current[worker]! < 0 ? '' : graph.name(current[worker]!)) },
      { key: 'done', title: __('Tasks done'), grow: 0.8, from: 0, isNumber: true, text: worker => integer(done[worker]!), value: worker => done[worker]! },
      { key: 'busy', title: __('Busy'), grow: 0.8, from: 380, isNumber: true, text: worker => duration(busy[worker]!), value: worker => busy[worker]! }
    ]
  };
}

/** The items that have every word of a search in one of theirs, whatever the case. */
export function search({ items, words }: Table, query: string): number[] {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) {
    return items;
  }
  const known = new Map<string, boolean[]>();
  const hits = (word: string) => {
    let found = known.get(word);
    if (!found) {
      const lower = word.toLowerCase();
      found = wanted.map(part => lower.includes(part));
      known.set(word, found);
    }
    return found;
  };
  return items.filter(item => {
    const of = words(item).map(hits);
    return wanted.every((_, i) => of.some(found => found[i]));
  });
}

/** Items in order; what has no value comes last, whichever way round. */
export function sorted(items: readonly number[], columns: readonly Column[], { key, isDescending }: Order): number[] {
  const column = columns.find(each => each.key === key);
  if (!column) {
    return isDescending ? [...items].reverse() : [...items];
  }
  const sign = isDescending ? -1 : 1;
  if (!column.value) {
    return items
      .map(item => [column.text(item), item] as const)
      .sort(([a, i], [b, k]) => sign * a.localeCompare(b) || i - k)
      .map(([, item]) => item);
  }
  const values = Float64Array.from(items, column.value);
  const order = Uint32Array.from(items.keys()).sort((a, b) => {
    const [x, y] = [values[a]!, values[b]!];
    return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || sign * (x - y) || a - b;
  });
  return Array.from(order, at => items[at]!);
}
