// Describes rows and groups in words, for tooltips, lists and screen readers.

import { duration, integer, size, stopwatch } from '../../i18n/format';
import { stateName } from '../../i18n/states';
import { __, _n, nObjects, nTasks as tasksInWords } from '../../i18n/translate';
import { failureInWords, inheritedIn } from '../../model/failures';
import type { TaskGraph } from '../../model/graph';
import { phasesOf } from '../../model/phases';
import { numberOf } from '../../model/rows';
import { type Counts, Kind, NO_WORKER, State } from '../../protocol/messages';

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
    return bytes ? __('in the store, %1', bytes) : __('in the store');
  }
  const seconds = duration(graph.duration(row, now));
  if (state === State.running) {
    return seconds ? __('running for %1', seconds) : __('running');
  }
  if (!seconds) {
    return stateName(state);
  }
  switch (state) {
    case State.finished:
      return __('finished in %1', seconds);
    case State.failed:
      return __('failed after %1', seconds);
    case State.cancelled:
      return __('cancelled after %1', seconds);
    default:
      return stateName(state);
  }
}

/** The lines of a row's tooltip, the title first. */
export function describeRow(graph: TaskGraph, row: number, now: number): string[] {
  return [
    rowTitle(graph, row),
    rowState(graph, row, now),
    failureInWords(graph, row),
    ...detailsOf(graph, row, now)
  ].filter(Boolean);
}

/** Shorter waits are not mentioned. */
const WAIT_S = 0.0005;

/** Where a row ran, how long it waited, and how many rows it is connected to. */
export function detailsOf(graph: TaskGraph, row: number, now: number): string[] {
  const isObject = graph.kind[row] === Kind.object;
  const { inputs, queued } = phasesOf(graph, row, now);
  const worker = graph.worker[row]!;
  const pid = worker === NO_WORKER ? undefined : graph.workers.get(worker)?.pid;
  const places = [
    graph.cellLabel(row)?.label,
    !isObject && inputs > WAIT_S && __('waited %1 for its inputs', duration(inputs)),
    !isObject && queued > WAIT_S && __('queued %1', duration(queued)),
    graph.isClustered && worker !== NO_WORKER && __('on %1', graph.nodeName(graph.nodeOf(row))),
    pid && __('worker %1', pid)
  ];
  const hasResult = !isObject && graph.state[row] === State.finished;
  const result = hasResult ? size(graph.size[row]!) : '';
  const [nIn, nOut, nChildren] = [graph.dependencies(row), graph.dependents(row), graph.children(row)].map(numberOf);
  const relations = [
    nIn && __('needs %1', integer(nIn)),
    nOut && __('needed by %1', integer(nOut)),
    nChildren && __('submitted %1', integer(nChildren)),
    result && __('result %1', result)
  ];
  return [places, relations].map(parts => parts.filter(Boolean).join('  ·  ')).filter(Boolean);
}

/** The lines of a group's tooltip, the title first. */
export function describeGroup(graph: TaskGraph, index: number): string[] {
  const group = graph.groups.list[index]!;
  const cell = graph.cells.get(group.cell)?.label;
  if (group.kind === Kind.object) {
    return [graph.groupName(group), [cell, nObjects(group.n), size(group.bytes)].filter(Boolean).join('  ·  ')];
  }
  const states = [
    State.running,
    State.finished,
    State.failed,
    State.cancelled,
    State.retrying,
    State.queued,
    State.waiting
  ] as const;
  const inherited = inheritedIn(graph).byGroup.get(index) ?? 0;
  const counts = states
    .filter(state => group.counts[state])
    .flatMap(state => [
      `${integer(group.counts[state]!)} ${stateName(state)}`,
      ...(state === State.failed && inherited ? [__('%1 of them only through their inputs', integer(inherited))] : [])
    ]);
  const mean = duration(group.meanSeconds);
  return [
    graph.groupName(group),
    [
      cell,
      tasksInWords(group.n),
      graph.byMachine && __('on %1', graph.nodeName(group.node)),
      mean && __('%1 on average', mean)
    ]
      .filter(Boolean)
      .join('  ·  '),
    counts.join('  ·  ')
  ].filter(Boolean);
}

/** One sentence about the whole session, for screen readers. */
export function summary(counts: Counts, nTasks: number, seconds: number): string {
  if (!nTasks) {
    return __('No tasks yet.');
  }
  return [
    _n('%3 of %2 task finished.', '%3 of %2 tasks finished.', nTasks, integer(counts.finished)),
    counts.running && __('%1 running.', integer(counts.running)),
    counts.waiting + counts.queued && __('%1 to come.', integer(counts.waiting + counts.queued)),
    counts.failed && __('%1 failed.', integer(counts.failed)),
    counts.cancelled && __('%1 cancelled.', integer(counts.cancelled)),
    __('Elapsed %1.', stopwatch(seconds))
  ]
    .filter(Boolean)
    .join(' ');
}
