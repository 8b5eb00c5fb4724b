// The work of each machine, for a table with a row for each machine. Pure.

import { duration, integer, short, size } from '../i18n/format';
import { __ } from '../i18n/translate';
import { type LineState, type NodeLabel, type Sample, State } from '../protocol/messages';
import type { TaskGraph } from './graph';

export interface MachineFacts {
  node: number;
  label: NodeLabel;
  /** The latest sample, or the one of a moment. */
  now: Sample | undefined;
  /** This session's tasks: running there, sent there and not begun, lost with the machine. */
  running: number;
  sent: number;
  lost: number;
  /** Bytes of values that came to the machine, and that went from it. */
  came: number;
  went: number;
  /** Such values that are under way. */
  travelling: number;
}

/**
 * CPUs that tasks have taken, of those of all machines that are there. What others do is only known while tasks of
 * this session are under way.
 */
export function cpusOf(graph: TaskGraph): { used: number; total: number; nMachines: number } {
  const { total, available } = graph.resources;
  const here = total['CPU'] ?? 0;
  const sum = { used: Math.max(0, here - (available['CPU'] ?? 0)), total: here, nMachines: 1 };
  const { waiting, queued, running } = graph.counts;
  for (const [node, { state, cpus }] of graph.nodes) {
    if (node > 0 && state !== 'dead') {
      sum.total += cpus;
      sum.used += waiting + queued + running > 0 ? (graph.resourcesAt(graph.now, node)?.cpus ?? 0) : 0;
      sum.nMachines++;
    }
  }
  return sum;
}

export function machinesOf(graph: TaskGraph, at: number): MachineFacts[] {
  const facts = new Map<number, MachineFacts>();
  for (const [node, label] of [...graph.nodes].sort(([a], [b]) => a - b)) {
    facts.set(node, {
      node,
      label,
      now: graph.resourcesAt(at, node),
      running: 0,
      sent: 0,
      lost: 0,
      came: 0,
      went: 0,
      travelling: 0
    });
  }
  const nodeOf = new Uint16Array(graph.workerLimit);
  const isSent = new Uint8Array(graph.workerLimit);
  for (const [worker, { node, pid }] of graph.workers) {
    nodeOf[worker] = node;
    isSent[worker] = Number(node > 0 && !pid);
  }
  const { n, state, worker } = graph;
  for (let row = 0; row < n; row++) {
    const waitsThere = state[row] === State.queued && isSent[worker[row]!] === 1;
    if (state[row] === State.running || waitsThere) {
      const found = facts.get(nodeOf[worker[row]!]!);
      if (found) {
        found[waitsThere ? 'sent' : 'running']++;
      }
    }
  }
  for (const { worker: where } of graph.losses) {
    const found = facts.get(nodeOf[where]!);
    if (found) {
      found.lost++;
    }
  }
  for (const { node, comes, size: bytes, ended, complete } of graph.transfers) {
    for (const [end, receives] of [
      [node, !comes],
      [0, comes]
    ] as const) {
      const found = facts.get(end);
      if (found) {
        found[receives ? 'came' : 'went'] += complete ? bytes : 0;
        found.travelling += Number(ended > at);
      }
    }
  }
  return [...facts.values()];
}

/** What has become of a machine; of an engine, of the line to it. */
export function machineState({ node, label: { state, reason, ended, line, line_since } }: MachineFacts): string {
  switch (state) {
    case 'dead': {
      const [gone, at] = [line === 'lost', duration(ended)];
      return [gone ? __('given up at %1, it is tried from the beginning', at) : __('lost at %1', at), reason]
        .filter(Boolean)
        .join(': ');
    }
    case 'draining':
      return __('takes nothing new');
    default:
      return lineState(line, line_since) || (node ? __('alive') : __('this machine'));
  }
}

function lineState(line: LineState, since: number): string {
  switch (line) {
    case 'connected':
      return __('connected');
    case 'slow':
      return __('no answer since %1', duration(since));
    case 'broken':
      return __('line broken since %1, it is tried again', duration(since));
    default:
      return '';
  }
}

/** Of an engine: how many tasks it has been given, of those that it may have. */
export function underWay({ running, sent, label: { window } }: MachineFacts): string {
  return __('%1 of at most %2 under way', integer(running + sent), integer(window));
}

/** One without memory stands for a cluster of others, of which nothing is known but what tasks have there. */
export function isMachine(label: NodeLabel): boolean {
  return label.memory > 0;
}

/** Shares of what there is, with words: processors, memory, store; NaN: not known, as of an engine. */
export function loads({
  label,
  now
}: MachineFacts): { key: string; title: string; share: number; brief: string; words: string }[] {
  const load = (key: string, title: string, share: number, brief: string, words: string) => ({
    key,
    title,
    share: Math.min(1, share || 0),
    brief: now ? brief : '',
    words: now ? words : ''
  });
  const { load: busy = 0, cpus = 0, memory = 0, store = 0 } = now ?? {};
  const [percent, taken, there] = [Math.round(100 * busy), short(cpus), short(label.cpus)];
  if (label.window > 0 || (now && !isMachine(label))) {
    const words = now ? __('tasks have %1 of %2', taken, there) : '';
    return [{ key: 'cpu', title: __('CPU'), share: Number.NaN, brief: words, words }];
  }
  return [
    load('cpu', __('CPU'), busy, `${percent} %`, __('%1 % busy, tasks have %2 of %3', percent, taken, there)),
    load('memory', __('Memory'), memory / label.memory, size(memory), __('%1 of %2', size(memory), size(label.memory))),
    load('store', __('Store'), store / label.store, size(store), __('%1 of %2', size(store), size(label.store)))
  ];
}
