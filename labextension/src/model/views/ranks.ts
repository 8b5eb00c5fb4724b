// Ranks, the members of a group that run the same at the same time: when they were in collectives, and for which of
// them the others waited. Pure.

import { duration } from '../../i18n/format';
import { __, _n } from '../../i18n/translate';
import type { ActorLabel, Collective } from '../../protocol/messages';
import type { TaskGraph } from '../graph';
import { perVersion } from '../per_version';

/** Who is in collectives for less than the next one, by this share of its time and this long, is waited for. */
const SLOWER_SHARE = 0.1;
const SLOWER_S = 0.005;

/** The groups that some actors are members of, each with its members in rank order. */
export function groupsOf(actors: readonly [number, ActorLabel][]): [string, [number, ActorLabel][]][] {
  const found = new Map<string, [number, ActorLabel][]>();
  for (const each of actors) {
    const { group } = each[1];
    if (group) {
      found.set(group, [...(found.get(group) ?? []), each]);
    }
  }
  found.forEach(members => members.sort(([, a], [, b]) => a.rank - b.rank));
  return [...found];
}

/** The collectives of each worker, in the order of time. */
export const collectivesOf = perVersion(({ collectives }): ReadonlyMap<number, readonly Collective[]> => {
  const found = new Map<number, Collective[]>();
  collectives.forEach(each => {
    const list = found.get(each.worker);
    if (list) {
      list.push(each);
    } else {
      found.set(each.worker, [each]);
    }
  });
  for (const list of found.values()) {
    list.sort((a, b) => a.began - b.began);
  }
  return found;
});

/** Those that began in a stretch of time; `list` is in the order of time. */
export function within(list: readonly Collective[], from: number, to: number): Collective[] {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle]!.began < from) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  let end = low;
  while (end < list.length && list[end]!.began < to) {
    end++;
  }
  return list.slice(low, end);
}

/** The seconds that a rank was in it, up to a time. */
export function secondsIn({ began, ended, inside }: Collective, to: number): number {
  return ended <= to ? inside : to - began;
}

/** Of calls that the ranks of a group ran at the same time, the one that the others waited for, and how long. */
export function slowest(graph: TaskGraph, now: number): ReadonlyMap<number, number> {
  const { ended, open } = judged(graph);
  if (!open.length) {
    return ended;
  }
  const found = new Map(ended);
  open.forEach(rows => judge(graph, rows, now, found));
  return found;
}

/** The slowest of calls that have all ended, and the calls of which some have not. */
const judged = perVersion(graph => {
  const ended = new Map<number, number>();
  const open: number[][] = [];
  for (const rows of calledTogether(graph)) {
    if (rows.some(row => isOpen(graph, row))) {
      open.push(rows);
    } else {
      judge(graph, rows, Infinity, ended);
    }
  }
  return { ended, open };
});

/** The rows that the ranks of a group ran at the same time. */
function calledTogether(graph: TaskGraph): Iterable<number[]> {
  const collectives = collectivesOf(graph);
  const nth = new Map<string, number>();
  const together = new Map<string, number[]>();
  for (let row = 0; collectives.size && row < graph.n; row++) {
    const index = graph.actor[row]! - 1;
    const label = graph.actors.get(index);
    if (!label?.group || !collectives.has(graph.worker[row]!)) {
      continue;
    }
    // Ranks run the same calls in the same order.
    const mine = `${graph.cell[row]} ${index}`;
    const n = nth.get(mine) ?? 0;
    nth.set(mine, n + 1);
    const key = `${graph.cell[row]} ${n} ${label.group}`;
    const rows = together.get(key);
    if (rows) {
      rows.push(row);
    } else {
      together.set(key, [row]);
    }
  }
  return together.values();
}

function judge(graph: TaskGraph, rows: number[], now: number, found: Map<number, number>): void {
  const seconds = rows.map(row => inCollectives(graph, row, now)).sort((a, b) => a.inside - b.inside);
  const [first, second] = seconds;
  if (first && second) {
    const waited = second.inside - first.inside;
    if (waited >= Math.max(SLOWER_S, SLOWER_SHARE * first.lasted)) {
      found.set(first.row, waited);
    }
  }
}

function isOpen(graph: TaskGraph, row: number): boolean {
  return !(graph.endOf(row) >= graph.started[row]!);
}

function inCollectives(graph: TaskGraph, row: number, now: number) {
  const start = graph.started[row]!;
  const end = isOpen(graph, row) ? now : Math.min(now, graph.endOf(row));
  const inside = within(collectivesOf(graph).get(graph.worker[row]!) ?? [], start, end).reduce(
    (sum, each) => sum + secondsIn(each, end),
    0
  );
  return { row, inside, lasted: end - start };
}

/** What is to be said of a rank's call beside what is said of every task. */
export function rankStory(graph: TaskGraph, row: number, now: number): string[] {
  const { inside } = inCollectives(graph, row, now);
  const waited = slowest(graph, now).get(row);
  return [
    ...(inside > 0 ? [__('%1 of it in collectives', duration(inside))] : []),
    ...(waited === undefined ? [] : [__('the slowest rank: the others waited %1 for it', duration(waited))])
  ];
}

/** A collective in words; `end`: of the call that it is in. */
export function collectiveInWords(collective: Collective, end: number): string[] {
  const { what, calls, ended } = collective;
  const seconds = duration(secondsIn(collective, end));
  return ended > end
    ? [what, __('in it for %1', seconds)]
    : [what, calls > 1 ? _n('%3 in %2 collective', '%3 in %2 collectives', calls, seconds) : __('in %1', seconds)];
}
