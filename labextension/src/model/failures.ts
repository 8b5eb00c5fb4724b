// Tells failures that are causes from failures that only follow from them. Pure.
//
// A task does not run when one of its inputs has failed or was cancelled: it fails with that error. So does every call
// of an actor whose constructor has failed. The events do not say so; it follows from states and dependencies.

import { __ } from '../i18n/translate';
import { Kind, State } from '../protocol/messages';
import type { TaskGraph } from './graph';
import { perVersion } from './per_version';
import { NONE } from './rows';

/** The smaller of two rows, either of which may be NONE. */
function earlier(a: number, b: number): number {
  return a === NONE || b < a ? b : a;
}

/** The row whose failure made this row fail without running; NONE if this row has not failed, or failed by itself. */
export function failedThrough(graph: TaskGraph, row: number): number {
  const { state, source, firstIn, nextIn } = graph;
  if (state[row] !== State.failed) {
    return NONE;
  }
  const own = graph.errors.get(row);
  let [through, said] = [NONE, NONE];
  // A loop, not the generator of dependencies, for speed: all failures are looked at after each change.
  for (let e = firstIn[row]!; e !== NONE; e = nextIn[e]!) {
    const input = source[e]!;
    if (state[input] !== State.failed && state[input] !== State.cancelled) {
      continue;
    }
    const error = own === undefined ? undefined : graph.errors.get(input);
    if (error === undefined) {
      through = earlier(through, input);
    } else if (error === own) {
      said = earlier(said, input);
    } // else another error: it needed an item of a generator that failed only after having made that
  }
  through = said === NONE ? through : said;
  if (through === NONE && graph.kind[row] === Kind.actor_call) {
    const creation = graph.calls.get(graph.actor[row]! - 1)?.first ?? NONE;
    if (creation !== NONE && graph.kind[creation] === Kind.actor_creation && graph.state[creation] === State.failed) {
      return creation;
    }
  }
  return through;
}

/** The first cause of a row's failure: the row itself if it failed by itself, NONE if it has not failed. */
export function rootCause(graph: TaskGraph, row: number): number {
  if (graph.state[row] !== State.failed) {
    return NONE;
  }
  const seen = new Set([row]); // a recording may contain a circle
  let root = row;
  for (
    let through = failedThrough(graph, row);
    through !== NONE && !seen.has(through);
    through = failedThrough(graph, root)
  ) {
    seen.add(through);
    root = through;
  }
  return root;
}

export interface Inherited {
  /** How many rows of each group failed only because an input did. */
  n: number;
  byGroup: ReadonlyMap<number, number>;
}

const NOTHING: Inherited = { n: 0, byGroup: new Map() };

/** Counts failures that were inherited from inputs. */
export function inheritedIn(graph: TaskGraph): Inherited {
  return graph.counts.failed ? countInherited(graph) : NOTHING;
}

const countInherited = perVersion((graph): Inherited => {
  let n = 0;
  const byGroup = new Map<number, number>();
  const { state, group } = graph;
  for (let row = 0; row < graph.n; row++) {
    if (state[row] === State.failed && failedThrough(graph, row) !== NONE) {
      n++;
      byGroup.set(group[row]!, (byGroup.get(group[row]!) ?? 0) + 1);
    }
  }
  return { n, byGroup };
});

/** Why a row failed, in a line; '' if it has not failed or the reason is unknown. */
export function failureInWords(graph: TaskGraph, row: number): string {
  const root = rootCause(graph, row);
  if (root === NONE) {
    return '';
  }
  const error = graph.errors.get(root) ?? (graph.state[root] === State.cancelled ? __('it was cancelled') : '');
  if (root === row) {
    return error;
  }
  return error
    ? __('failed only through %1: %2', graph.name(root), error)
    : __('failed only through %1', graph.name(root));
}
