// Rows and groups in words: for tooltips, lists and screen readers alike.

import { duration, integer, plural, size, stopwatch } from '../../format';
import type { TaskGraph } from '../../model';
import { type Counts, Kind, NO_WORKER, State } from '../../protocol';

export const STATE_NAMES: Record<State, string> = {
  [State.waiting]: 'waiting',
  [State.ready]: 'queued',
  [State.running]: 'running',
  [State.finished]: 'finished',
  [State.failed]: 'failed',
  [State.cancelled]: 'cancelled',
  [State.retrying]: 'retrying'
};

/** What each state means, in a phrase. */
export const STATE_HINTS: Record<State, string> = {
  [State.waiting]: 'waiting for what they depend on',
  [State.ready]: 'queued: nothing is missing but a free worker',
  [State.running]: 'running now',
  [State.finished]: 'finished',
  [State.failed]: 'failed',
  [State.cancelled]: 'cancelled',
  [State.retrying]: 'an attempt was lost, the next one is queued'
};

function numberOf(rows: Iterable<number>): number {
  let n = 0;
  for (const _ of rows) {
    n++;
  }
  return n;
}

/** "add", "Simulator.step", "put". */
export function rowTitle(graph: TaskGraph, row: number): string {
  const actor = graph.actors.get(graph.actor[row]! - 1);
  if (graph.kind[row] === Kind.actor_creation) {
    return actor?.name ? `${graph.name(row)} “${actor.name}”` : graph.name(row);
  }
  return graph.name(row);
}

/** "finished in 12 ms", "running for 3 s". */
export function rowState(graph: TaskGraph, row: number, now: number): string {
  const state = graph.state[row] as State;
  if (graph.kind[row] === Kind.object) {
    const bytes = size(graph.size[row]!);
    return bytes ? `in the store, ${bytes}` : 'in the store';
  }
  const seconds = duration(graph.duration(row, now));
  if (state === State.running) {
    return seconds ? `running for ${seconds}` : 'running';
  }
  return seconds ? `${STATE_NAMES[state]} ${state === State.finished ? 'in' : 'after'} ${seconds}` : STATE_NAMES[state];
}

/** The lines of a row's tooltip, the title first. */
export function describeRow(graph: TaskGraph, row: number, now: number): string[] {
  const lines = [rowTitle(graph, row), rowState(graph, row, now)];
  const queued = graph.started[row]! - graph.submitted[row]!;
  const worker = graph.worker[row]!;
  const pid = worker === NO_WORKER ? undefined : graph.workers.get(worker)?.pid;
  const places = [
    graph.cellLabel(row)?.label,
    queued > 0.0005 && `queued ${duration(queued)}`,
    pid !== undefined && `worker ${pid}`
  ];
  lines.push(places.filter(Boolean).join('  ·  '));
  const hasResult = graph.kind[row] !== Kind.object && graph.state[row] === State.finished;
  const result = hasResult ? size(graph.size[row]!) : '';
  const [nIn, nOut, nChildren] = [graph.dependencies(row), graph.dependents(row), graph.children(row)].map(numberOf);
  const relations = [
    nIn && `needs ${integer(nIn)}`,
    nOut && `needed by ${integer(nOut)}`,
    nChildren && `submitted ${integer(nChildren)}`,
    result && `result ${result}`
  ];
  lines.push(relations.filter(Boolean).join('  ·  '));
  return lines.filter(Boolean);
}

/** The lines of a group's tooltip, the title first. */
export function describeGroup(graph: TaskGraph, index: number): string[] {
  const group = graph.groups.list[index]!;
  const cell = graph.cells.get(group.cell)?.label;
  if (group.kind === Kind.object) {
    return ['put', [cell, plural(group.n, 'object'), size(group.bytes)].filter(Boolean).join('  ·  ')];
  }
  const states = [State.running, State.finished, State.failed, State.cancelled, State.retrying, State.ready, State.waiting] as const;
  const counts = states.filter(state => group.counts[state]).map(state => `${integer(group.counts[state]!)} ${STATE_NAMES[state]}`);
  const mean = duration(group.meanSeconds);
  return [
    graph.functionName(group.fn),
    [cell, plural(group.n, 'task'), mean && `${mean} on average`].filter(Boolean).join('  ·  '),
    counts.join('  ·  ')
  ].filter(Boolean);
}

/** One sentence about the whole, for those who hear it. */
export function summary(counts: Counts, nTasks: number, seconds: number): string {
  if (!nTasks) {
    return 'No tasks yet.';
  }
  const parts = [
    counts.running && `${integer(counts.running)} running`,
    counts.waiting + counts.ready && `${integer(counts.waiting + counts.ready)} to come`,
    counts.failed && `${integer(counts.failed)} failed`,
    counts.cancelled && `${integer(counts.cancelled)} cancelled`
  ].filter(Boolean);
  const rest = parts.length ? `; ${parts.join(', ')}` : '';
  return `${integer(counts.finished)} of ${plural(nTasks, 'task')} finished${rest}. Elapsed ${stopwatch(seconds)}.`;
}
