// What the timeline says in words: a task's story, a value's journey, and why a worker did nothing. Pure.

import { duration, size } from '../../i18n/format';
import { __, _n } from '../../i18n/translate';
import { Kind, NO_WORKER, State, type Transfer } from '../../protocol/messages';
import { failureInWords } from '../failures';
import type { TaskGraph } from '../graph';
import { phasesOf, readyAt } from '../phases';
import { rankStory } from './ranks';

/** A row's time in words: what it waited for, how long it ran, and why it failed. */
export function story(graph: TaskGraph, row: number, now: number): string[] {
  const { inputs, queued, way, loading, running, back } = phasesOf(graph, row, now);
  const state = graph.state[row];
  const where = graph.nodeName(graph.nodeOf(row));
  const isRemote = !Number.isNaN(graph.sent[row]!);
  const failure = failureInWords(graph, row);
  return [
    inputs > 0 && __('%1 until its inputs were there', duration(inputs)),
    queued > 0 && __('%1 in the queue', duration(queued)),
    isRemote && (way > 0 ? __('%1 on the way to %2', duration(way), where) : __('sent to %1', where)),
    loading > 0 && __('%1 to load its code and arguments', duration(loading)),
    !Number.isNaN(running) &&
      (state === State.running ? __('runs for %1', duration(running)) : __('ran %1', duration(running))),
    back > 0 && __('%1 until its result was here', duration(back)),
    ...rankStory(graph, row, now),
    failure
  ].filter((line): line is string => Boolean(line));
}

/** A value's journey in words. */
export function journey(graph: TaskGraph, transfer: Transfer, now: number): string[] {
  const { row, node, comes, size: bytes, began, ended, complete } = transfer;
  const seconds = Math.min(ended, now) - began;
  const way = comes
    ? __('%1 from %2', size(bytes), graph.nodeName(node))
    : __('%1 to %2', size(bytes), graph.nodeName(node));
  const rate = complete && seconds > 0 ? __('%1 per second', size(bytes / seconds)) : '';
  const state =
    ended > now
      ? __('under way for %1', duration(seconds))
      : complete
        ? __('in %1', duration(seconds))
        : __('given up after %1', duration(seconds));
  return [
    row >= 0 ? __('result of %1', graph.name(row)) : __('value'),
    way,
    [state, rate].filter(Boolean).join('  ·  ')
  ];
}

/** Memory fuller than this delays tasks, or has some of them ended. */
const TIGHT = 0.93;

/**
 * Why a worker was idle at a time: it did not exist, no task was ready, or the ready tasks needed more than was free.
 */
export function gapReason(graph: TaskGraph, at: number, worker = NO_WORKER): string[] {
  const life = graph.workers.get(worker);
  if (life?.node) {
    return []; // what went on there is not known here
  }
  if (life && (life.since > at || life.ended < at)) {
    return [life.since > at ? __('this process had not begun yet') : __('this process had ended')];
  }
  let [waiting, queued, running, loading] = [0, 0, 0, 0];
  const awaited = new Map<string, number>();
  for (let row = 0; row < graph.n; row++) {
    const started = graph.started[row]!;
    const finished = graph.finished[row]!;
    if (graph.kind[row] === Kind.object || !(graph.submitted[row]! <= at) || finished <= at) {
      continue;
    }
    if (started <= at) {
      running++;
      loading += Number(graph.called[row]! > at);
    } else if (readyAt(graph, row) <= at) {
      queued++;
    } else {
      waiting++;
      for (const source of graph.dependencies(row)) {
        if (!(graph.finished[source]! <= at)) {
          awaited.set(graph.name(source), (awaited.get(graph.name(source)) ?? 0) + 1);
        }
      }
    }
  }
  if (queued) {
    return [_n('%2 task queued:', '%2 tasks queued:', queued), held(graph, at, running), ...loadingInWords(loading)];
  }
  if (waiting) {
    const [name] = [...awaited].sort(([, a], [, b]) => b - a)[0] ?? [__('what had yet to finish')];
    return [__('nothing was ready:'), _n('%2 task waited for %3', '%2 tasks waited for %3', waiting, name)];
  }
  return [
    ...(running
      ? [_n('nothing else was to do while %2 task ran', 'nothing else was to do while %2 tasks ran', running)]
      : [__('nothing was to do')]),
    ...loadingInWords(loading)
  ];
}

/** How many running tasks were still loading. */
function loadingInWords(n: number): string[] {
  return n ? [_n('%2 of them loaded its arguments', '%2 of them loaded their arguments', n)] : [];
}

/** What delayed queued tasks, as far as it was recorded: a resource that was all taken, or memory. */
function held(graph: TaskGraph, at: number, running: number): string {
  const { cpus, gpus, memory } = graph.resourcesAt(at);
  const node = graph.nodes.get(0);
  const total = graph.resources.total;
  if (node && memory > TIGHT * node.memory) {
    return __('memory was nearly full: %1 of %2', size(memory), size(node.memory));
  }
  if (!running) {
    return __('what they ask for was not free');
  }
  if ((total['CPU'] ?? 0) > 0 && cpus >= total['CPU']!) {
    return _n('all CPUs were taken by the %2 that ran', 'all CPUs were taken by the %2 that ran', running);
  }
  if ((total['GPU'] ?? 0) > 0 && gpus >= total['GPU']!) {
    return __('all GPUs were taken');
  }
  return _n(
    'what they ask for was taken by the %2 that ran',
    'what they ask for was taken by the %2 that ran',
    running
  );
}
