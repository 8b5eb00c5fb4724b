// How a row's time divides into phases. Every view counts it this way. Pure.
//
// From its submission to its end a task passes, in this order: `inputs`, until the last thing that it depends on was
// there; `queued`, for a place to run; `way`, to another machine; `loading` its code and arguments; `running` the
// user's code; and `back`, the way of its result from another machine. A phase that it has not come to is NaN, one that
// goes on lasts until now.

import { State } from '../protocol/messages';
import type { TaskGraph } from './graph';
import { isEnded } from './rows';

export interface Phases {
  inputs: number;
  queued: number;
  way: number;
  loading: number;
  running: number;
  back: number;
}

/** When the last thing a row depends on was there: from then on it only waited for a place to run. */
export function readyAt(graph: TaskGraph, row: number): number {
  let ready = graph.submitted[row]!;
  for (const source of graph.dependencies(row)) {
    const end = graph.finished[source]!;
    ready = end > ready ? end : ready;
  }
  return ready;
}

export function phasesOf(graph: TaskGraph, row: number, now: number): Phases {
  const state = graph.state[row] as State;
  const submitted = graph.submitted[row]!;
  const started = graph.started[row]!;
  const sent = graph.sent[row]!;
  const left = Number.isNaN(sent) ? started : sent;
  // One that never began waited until it was cancelled, or gave up.
  const until = !Number.isNaN(left) ? left : isEnded(state) ? graph.finished[row]! : now;
  const isWaiting = state === State.waiting && Number.isNaN(left);
  const ready = isWaiting ? now : Math.min(readyAt(graph, row), until);
  const loading = graph.loading(row);
  const loaded = loading > 0 ? loading : 0;
  const back = graph.finished[row]! - graph.ended[row]!;
  return {
    inputs: Math.max(0, ready - submitted),
    queued: isWaiting ? Number.NaN : Math.max(0, until - ready),
    way: started - sent,
    loading,
    running: graph.duration(row, now) - loaded,
    back: back > 0 ? back : Number.NaN
  };
}

/** How long a row was queued, or has been by now. */
export function queuedFor(graph: TaskGraph, row: number, now: number): number {
  return phasesOf(graph, row, now).queued;
}
