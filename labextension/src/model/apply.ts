// model/: the session as data; never the page or a clock.

// Applies messages to the graph, each as a whole or not at all, and takes the graph back to an earlier time.

import { ProtocolError } from '../protocol/errors';
import {
  type GraphMessage,
  Kind,
  N_COLLECTIVES_MAX,
  N_SAMPLES_MAX,
  N_STATES,
  type Sample,
  State
} from '../protocol/messages';
import type { TaskGraph } from './graph';
import { Groups } from './groups';
import { connectGroups, countInGroup, enterGroup, moveRows } from './membership';
import { isEnded, NONE } from './rows';

/** Apply a message. Throws `ProtocolError`, and leaves the graph unchanged, when it names rows that do not exist. */
export function apply(graph: TaskGraph, message: GraphMessage, clockMs: number): void {
  const { header } = message;
  const before = header.type === 'snapshot' ? 0 : graph.n;
  check(message, before + header.new);
  if (header.type === 'snapshot') {
    reset(graph);
  }
  for (const [index, name] of header.functions) {
    graph.functions.set(index, name);
  }
  for (const [index, label] of header.cells) {
    graph.cells.set(index, label);
  }
  for (const [index, label] of header.actors) {
    graph.actors.set(index, label);
  }
  for (const [index, label] of header.workers) {
    graph.workers.set(index, label);
  }
  for (const [index, label] of header.nodes) {
    graph.nodes.set(index, label);
  }
  graph.isClustered ||= header.nodes.some(([node]) => node > 0) || header.workers.some(([, { node }]) => node > 0);
  graph.samples.push(...header.samples);
  if (graph.samples.length > 2 * N_SAMPLES_MAX * Math.max(1, graph.nodes.size)) {
    graph.samples = thinned(graph.samples);
  }
  for (const [index, transfer] of header.transfers) {
    graph.transfers[index] = transfer;
  }
  for (const [index, collective] of header.collectives) {
    graph.collectives.set(index, collective);
  }
  for (const index of graph.collectives.keys()) {
    if (graph.collectives.size <= N_COLLECTIVES_MAX) {
      break;
    }
    graph.collectives.delete(index); // the oldest: a Map has its keys in the order in which they came
  }
  graph.losses.push(...header.losses);
  graph.lines = header.lines;
  for (const [row, error] of header.errors) {
    graph.errors.set(row, error);
  }
  graph.session = header.session;
  graph.now = header.now;
  graph.receivedAt = clockMs;
  graph.tasks = header.tasks;
  graph.aggregated = header.aggregated;
  graph.dropped = header.dropped;
  graph.behind = header.behind;
  graph.counts = header.counts;
  graph.resources = header.resources;
  graph.store = header.store;
  addRows(graph, message, clockMs);
  addEdges(graph, message);
  updateRows(graph, message, clockMs);
  setCalls(graph, message);
  const { finished, failed, cancelled } = graph.counts;
  graph.rates.add(graph.now, finished + failed + cancelled);
  graph.version++;
}

/** Every second sample of each machine, and the latest of all. */
function thinned(samples: readonly Sample[]): Sample[] {
  const turns = new Map<number, number>();
  return samples.filter((sample, i) => {
    const turn = turns.get(sample.node) ?? 0;
    turns.set(sample.node, turn + 1);
    return turn % 2 === 0 || i === samples.length - 1;
  });
}

function check({ header, arrays }: GraphMessage, nRows: number): void {
  const { newU32, updateRow, updateState, edges, remoteRow, calls } = arrays;
  const known = (rows: Uint32Array) => rows.every(row => row < nRows);
  const nNew = header.new;
  if (
    !known(updateRow) ||
    !known(edges) ||
    !known(remoteRow) ||
    header.errors.some(([row]) => !(row >= 0 && row < nRows)) ||
    calls.some((row, i) => i % 2 === 0 && !(row >= 0 && row < nRows))
  ) {
    throw new ProtocolError('an update or an edge of an unknown row');
  }
  if (updateState.some(state => state >= N_STATES) || newU32.subarray(4 * nNew).some(kind => kind > Kind.object)) {
    throw new ProtocolError('an unknown state or kind');
  }
  if (newU32.subarray(3 * nNew, 4 * nNew).some(parent => parent > nRows)) {
    throw new ProtocolError('a nested task of an unknown row');
  }
}

function addRows(graph: TaskGraph, { header, arrays }: GraphMessage, clockMs: number): void {
  const nNew = header.new;
  const base = graph.n;
  graph.allocateRows(base + nNew);
  const { newU32, newSubmitted } = arrays;
  graph.fn.set(newU32.subarray(0, nNew), base);
  graph.cell.set(newU32.subarray(nNew, 2 * nNew), base);
  graph.actor.set(newU32.subarray(2 * nNew, 3 * nNew), base);
  graph.parent.set(newU32.subarray(3 * nNew, 4 * nNew), base);
  graph.kind.set(newU32.subarray(4 * nNew, 5 * nNew), base);
  graph.submitted.set(newSubmitted, base);
  graph.born.fill(clockMs, base, base + nNew);
  graph.changed.fill(clockMs, base, base + nNew);
  graph.n = base + nNew;
  for (let row = base; row < graph.n; row++) {
    const kind = graph.kind[row] as Kind;
    graph.state[row] = kind === Kind.object ? State.finished : State.waiting;
    enterGroup(graph, row);
    const parent = graph.parent[row]! - 1;
    if (parent >= 0) {
      graph.nextChild[row] = graph.firstChild[parent]!;
      graph.firstChild[parent] = row;
      connectGroups(graph, parent, row);
    }
    followActor(graph, row, kind);
  }
}

function followActor(graph: TaskGraph, row: number, kind: Kind): void {
  const actor = graph.actor[row]! - 1;
  if (actor < 0 || kind === Kind.object) {
    return;
  }
  const calls = graph.calls.get(actor);
  if (calls) {
    graph.previousCall[row] = calls.last;
    calls.last = row;
    calls.n++;
  } else {
    graph.calls.set(actor, { first: row, last: row, n: kind === Kind.actor_call ? 1 : 0, ended: 0 });
  }
}

function addEdges(graph: TaskGraph, { header, arrays }: GraphMessage): void {
  graph.allocateEdges(graph.nEdges + header.edges);
  const { edges } = arrays;
  for (let i = 0; i < edges.length; i += 2) {
    const source = edges[i]!;
    const target = edges[i + 1]!;
    const e = graph.nEdges++;
    graph.source[e] = source;
    graph.target[e] = target;
    graph.nextIn[e] = graph.firstIn[target]!;
    graph.firstIn[target] = e;
    graph.nextOut[e] = graph.firstOut[source]!;
    graph.firstOut[source] = e;
    connectGroups(graph, source, target);
  }
}

function updateRows(graph: TaskGraph, { arrays }: GraphMessage, clockMs: number): void {
  const { updateRow, updateState, updateWorker, updateStarted, updateFinished, updateSize, remoteRow, remoteTimes } =
    arrays;
  let remote = 0; // the rows that ran on another machine come in the order of the updates
  const moved: number[] = [];
  for (let i = 0; i < updateRow.length; i++) {
    const row = updateRow[i]!;
    const from = graph.state[row] as State;
    const to = updateState[i] as State;
    const group = graph.groups.list[graph.group[row]!]!;
    const nodeBefore = graph.byMachine ? graph.nodeOf(row) : 0;
    countInGroup(graph, row, -1);
    graph.worker[row] = updateWorker[i]!;
    graph.started[row] = updateStarted[i]!;
    graph.finished[row] = updateFinished[i]!;
    graph.called[row] = Number.NaN;
    const isRemote = remoteRow[remote] === row;
    graph.sent[row] = isRemote ? remoteTimes[remote]! : Number.NaN;
    graph.ended[row] = isRemote ? remoteTimes[remoteRow.length + remote]! : Number.NaN;
    remote += Number(isRemote);
    graph.size[row] = updateSize[i]!;
    countInGroup(graph, row, 1);
    if (graph.byMachine && graph.nodeOf(row) !== nodeBefore) {
      moved.push(row);
    }
    if (from !== to) {
      graph.state[row] = to;
      graph.changed[row] = clockMs;
      group.counts[from]!--;
      group.counts[to]!++;
      group.waffle.change(graph.rank[row]!, from, to);
      if (graph.kind[row] === Kind.actor_call) {
        const calls = graph.calls.get(graph.actor[row]! - 1);
        if (calls) {
          calls.ended += Number(isEnded(to)) - Number(isEnded(from));
        }
      }
    }
  }
  if (moved.length) {
    moveRows(graph, moved);
  }
}

function setCalls(graph: TaskGraph, { arrays: { calls } }: GraphMessage): void {
  for (let i = 0; i < calls.length; i += 2) {
    graph.called[calls[i]!] = calls[i + 1]!;
  }
}

/** Forget everything: the session has ended. */
export function clear(graph: TaskGraph): void {
  reset(graph);
  graph.session = '';
  graph.tasks = graph.aggregated = graph.dropped = graph.behind = 0;
  graph.version++;
}

function reset(graph: TaskGraph): void {
  graph.epoch++;
  graph.isClustered = false;
  graph.empty();
  graph.groups = new Groups();
  graph.functions = new Map();
  graph.cells = new Map();
  graph.actors = new Map();
  graph.workers = new Map();
  graph.nodes = new Map();
  graph.samples = [];
  graph.transfers = [];
  graph.collectives.clear();
  graph.losses = [];
  graph.errors.clear();
  graph.calls.clear();
  graph.rates.clear();
}

/**
 * Go back to a time: forget the rows from `n` on with their edges. The message that follows sets the other rows and all
 * labels. Edges must have come in the order of their later rows.
 */
export function rewind(graph: TaskGraph, n: number, at: number): void {
  while (graph.nEdges && Math.max(graph.source[graph.nEdges - 1]!, graph.target[graph.nEdges - 1]!) >= n) {
    const e = --graph.nEdges;
    const [source, target] = [graph.source[e]!, graph.target[e]!];
    graph.firstIn[target] = graph.nextIn[e]!;
    graph.firstOut[source] = graph.nextOut[e]!;
    graph.groups.disconnect(graph.group[source]!, graph.group[target]!);
  }
  for (let row = graph.n - 1; row >= n; row--) {
    removeLast(graph, row);
  }
  graph.cut(n);
  if (graph.byMachine) {
    graph.groups.pruneEdges(); // rows enter groups in another order than they appear, so each group keeps its place
  } else {
    graph.groups.prune();
  }
  graph.groups.refine(n, graph.group, graph.state, graph.rank);
  for (const labels of [graph.functions, graph.cells, graph.actors, graph.workers, graph.nodes]) {
    labels.clear();
  }
  graph.samples = graph.samples.filter(sample => sample.at <= at);
  graph.losses = graph.losses.filter(({ lost }) => lost <= at);
  graph.transfers = [];
  graph.collectives.clear();
  graph.rates.clear();
}

function removeLast(graph: TaskGraph, row: number): void {
  const group = graph.groups.list[graph.group[row]!]!;
  const state = graph.state[row] as State;
  group.n--;
  group.counts[state]!--;
  group.waffle.removeLast(state);
  countInGroup(graph, row, -1);
  const parent = graph.parent[row]! - 1;
  if (parent >= 0) {
    graph.firstChild[parent] = graph.nextChild[row]!;
    graph.groups.disconnect(graph.group[parent]!, graph.group[row]!);
  }
  const actor = graph.actor[row]! - 1;
  const calls = graph.calls.get(actor);
  if (calls?.last === row) {
    if (graph.previousCall[row] === NONE) {
      graph.calls.delete(actor);
    } else {
      calls.last = graph.previousCall[row]!;
      calls.n--;
      calls.ended -= Number(graph.kind[row] === Kind.actor_call && isEnded(state));
    }
  }
}
