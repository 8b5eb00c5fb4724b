// The progress of each cell's tasks, for the badges beside the cells. Pure.

import { short } from '../i18n/format';
import { stateName } from '../i18n/states';
import { __ } from '../i18n/translate';
import { Kind, State } from '../protocol/messages';
import type { TaskGraph } from './graph';

export interface Badge {
  /** The state that matters most, and how many tasks are in it. */
  state: State;
  text: string;
  /** All of them, in words. */
  title: string;
  /** How many of them have ended, from 0 to 1. */
  share: number;
}

/** States by importance. */
const FIRST: State[] = [State.running, State.failed, State.queued, State.waiting, State.cancelled, State.finished];
const LISTED: State[] = [State.running, State.queued, State.waiting, State.finished, State.failed, State.cancelled];

/** By a cell's id, for the latest run of each cell that has tasks. */
export function badgesOf(graph: TaskGraph): Map<string, Badge> {
  const runs = new Map<string, number>();
  for (const [number, { id }] of graph.cells) {
    runs.set(id, Math.max(number, runs.get(id) ?? 0));
  }
  const counts = new Map<number, Map<State, number>>();
  for (const { cell, kind, counts: own } of graph.groups.list) {
    if (kind !== Kind.object) {
      const all = counts.get(cell) ?? new Map<State, number>();
      counts.set(cell, all);
      own.forEach((n, state) => {
        const counted = (state === State.retrying ? State.queued : state) as State;
        all.set(counted, (all.get(counted) ?? 0) + n);
      });
    }
  }
  const badges = new Map<string, Badge>();
  for (const [id, number] of runs) {
    const all = counts.get(number);
    if (id && all) {
      badges.set(id, badge(all));
    }
  }
  return badges;
}

function badge(counts: Map<State, number>): Badge {
  const n = (state: State) => counts.get(state) ?? 0;
  const state = FIRST.find(each => n(each) > 0) ?? State.finished;
  const total = LISTED.reduce<number>((sum, each) => sum + n(each), 0);
  const ended = n(State.finished) + n(State.failed) + n(State.cancelled);
  const words = LISTED.filter(each => n(each) > 0).map(each => `${short(n(each))} ${stateName(each)}`);
  return {
    state,
    text: short(n(state)),
    title: __('Tasks of this cell: %1', words.join(', ')),
    share: total ? ended / total : 1
  };
}
