// Keeps track of which group each row is in, as rows come and change and when groups are made for each machine.

import type { Kind, State } from '../protocol/messages';
import type { TaskGraph } from './graph';
import { type Group, Groups } from './groups';
import { NONE } from './rows';

/** Have groups of one machine each, or not. What had not begun yet counts to this machine. */
export function regroup(graph: TaskGraph, byMachine: boolean): void {
  if (byMachine === graph.byMachine) {
    return;
  }
  graph.byMachine = byMachine;
  graph.epoch++;
  graph.groups = new Groups();
  for (let row = 0; row < graph.n; row++) {
    enterGroup(graph, row);
    countInGroup(graph, row, 1);
  }
  for (let row = 0; row < graph.n; row++) {
    if (graph.parent[row]) {
      connectGroups(graph, graph.parent[row]! - 1, row);
    }
  }
  for (let e = 0; e < graph.nEdges; e++) {
    connectGroups(graph, graph.source[e]!, graph.target[e]!);
  }
}

function groupOf(graph: TaskGraph, row: number): Group {
  return graph.groups.find(
    graph.fn[row]!,
    graph.cell[row]!,
    graph.kind[row] as Kind,
    graph.byMachine ? graph.nodeOf(row) : NONE,
    row,
    membersOf(graph, row)
  );
}

/** A call of each member of a group is one thing: "Trainer[2].step" is a part of "Trainer.step". '' for other rows. */
function membersOf(graph: TaskGraph, row: number): string {
  const actor = graph.actors.get(graph.actor[row]! - 1);
  if (!actor?.group) {
    return '';
  }
  const name = graph.name(row);
  // A cell of ranks is called by the rank alone.
  return `${name === `rank ${actor.rank}` ? 'ranks' : name.replace(`[${actor.rank}]`, '')}\0${actor.group}`;
}

export function enterGroup(graph: TaskGraph, row: number): void {
  const group = groupOf(graph, row);
  const state = graph.state[row] as State;
  graph.group[row] = group.index;
  graph.rank[row] = group.waffle.add(state);
  group.n++;
  group.counts[state]!++;
}

/** Add what a row has taken, in time and bytes, to its group's sums, or take it away. */
export function countInGroup(graph: TaskGraph, row: number, sign: 1 | -1): void {
  const group = graph.groups.list[graph.group[row]!]!;
  const seconds = graph.endOf(row) - graph.started[row]!;
  group.bytes += sign * (graph.size[row]! || 0);
  if (!Number.isNaN(seconds)) {
    group.seconds += sign * seconds;
    group.nTimed += sign;
  }
}

/** Rows that have been found on another machine go into its groups. */
export function moveRows(graph: TaskGraph, rows: readonly number[]): void {
  const stale = new Set<Group>();
  for (const row of rows) {
    const from = graph.groups.list[graph.group[row]!]!;
    const to = groupOf(graph, row);
    const state = graph.state[row] as State;
    const pairs = [
      ...[...graph.dependencies(row), ...(graph.parent[row] ? [graph.parent[row] - 1] : [])].map(
        other => [other, row] as const
      ),
      ...[...graph.dependents(row), ...graph.children(row)].map(other => [row, other] as const)
    ];
    pairs.forEach(([source, target]) => graph.groups.disconnect(graph.group[source]!, graph.group[target]!));
    countInGroup(graph, row, -1);
    from.n--;
    from.counts[state]!--;
    graph.group[row] = to.index;
    countInGroup(graph, row, 1);
    to.n++;
    to.counts[state]!++;
    pairs.forEach(([source, target]) => connectGroups(graph, source, target));
    stale.add(from).add(to);
  }
  graph.groups.pruneEdges();
  graph.groups.refine(graph.n, graph.group, graph.state, graph.rank, stale);
}

export function connectGroups(graph: TaskGraph, source: number, target: number): void {
  graph.groups.connect(graph.group[source]!, graph.group[target]!);
}
