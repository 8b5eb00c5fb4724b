// The stretches of work in a session, and the positions of moments on a slider that shows pauses as notches. Pure.

import { Kind, State } from '../protocol/messages';
import { type TaskGraph } from './graph';
import { isEnded } from './rows';

/** Pauses longer than this share of all work are drawn as a notch. */
const PAUSE_SHARE = 0.03;

const PAUSE_MIN_S = 0.3;

/** What such a pause takes of the slider, as a share of all work. */
const NOTCH_SHARE = 0.012;

/** A stretch of the session in which there was work, and where it lies on the slider, from 0 to 1. */
export interface Stretch {
  from: number;
  to: number;
  start: number;
  end: number;
}

/** The stretches of work; the pauses between them, in which the notebook was read, become notches. */
export function stretchesOf(graph: TaskGraph, now: number): Stretch[] {
  const found: [number, number][] = [];
  let total = 0;
  // Rows come in the order of their submission, nearly; a late one is caught by the stretch that is open.
  for (let row = 0; row < graph.n; row++) {
    const from = graph.submitted[row]!;
    const end = isEnded(graph.state[row]!) ? graph.finished[row]! : now;
    if (Number.isNaN(from)) {
      continue;
    }
    const to = end > from ? end : from;
    const last = found[found.length - 1];
    if (last && from <= last[1]) {
      last[1] = Math.max(last[1], to);
    } else {
      found.push([from, to]);
    }
  }
  for (const [from, to] of found) {
    total += to - from;
  }
  const pause = Math.max(PAUSE_MIN_S, PAUSE_SHARE * total);
  const joined: [number, number][] = [];
  for (const [from, to] of found) {
    const last = joined[joined.length - 1];
    if (last && from - last[1] <= pause) {
      last[1] = Math.max(last[1], to);
    } else {
      joined.push([from, to]);
    }
  }
  const work = joined.reduce((sum, [from, to]) => sum + to - from, 0) || 1;
  const notch = NOTCH_SHARE * work;
  const whole = work + notch * Math.max(0, joined.length - 1);
  let at = 0;
  return joined.map(([from, to]) => {
    const start = at / whole;
    at += to - from;
    const end = at / whole;
    at += notch;
    return { from, to, start, end };
  });
}

/** Where a moment lies on the slider. */
export function placeOf(stretches: readonly Stretch[], at: number): number {
  let [low, high] = [0, stretches.length]; // the first stretch that begins later
  while (low < high) {
    const middle = (low + high) >> 1;
    if (stretches[middle]!.from <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const stretch = stretches[low - 1];
  if (!stretch) {
    return 0;
  }
  const { from, to, start, end } = stretch;
  return at >= to ? end : start + ((at - from) / (to - from)) * (end - start);
}

/** The moment at a place of the slider. */
export function momentAt(stretches: readonly Stretch[], place: number): number {
  let last = stretches[0]?.from ?? 0;
  for (const { from, to, start, end } of stretches) {
    if (place <= start) {
      return place < start ? last : from;
    }
    if (place < end) {
      return from + ((place - start) / (end - start)) * (to - from);
    }
    last = to;
  }
  return last;
}

/** In larger sessions every second, third … row is counted. */
const N_COUNTED = 50_000;

/** How many tasks ran, on average, in each of `n` steps along the slider. */
export function activity(graph: TaskGraph, stretches: readonly Stretch[], now: number, n: number): Float64Array {
  const change = new Float64Array(n + 2);
  const stride = Math.max(1, Math.ceil(graph.n / N_COUNTED));
  for (let row = 0; row < graph.n; row += stride) {
    const started = graph.started[row]!;
    const end = graph.state[row] === State.running ? now : graph.finished[row]!;
    if (graph.kind[row] === Kind.object || !(end >= started)) {
      continue;
    }
    const from = n * placeOf(stretches, started);
    const to = n * placeOf(stretches, end);
    const [first, last] = [Math.min(n - 1, Math.floor(from)), Math.min(n - 1, Math.floor(to))];
    if (first === last) {
      change[first] = change[first]! + (to - from);
      change[first + 1] = change[first + 1]! - (to - from);
    } else {
      change[first] = change[first]! + (first + 1 - from);
      change[first + 1] = change[first + 1]! + (from - first);
      change[last] = change[last]! - (last + 1 - to);
      change[last + 1] = change[last + 1]! - (to - last);
    }
  }
  const steps = new Float64Array(n);
  let sum = 0;
  for (let i = 0; i < n; i++) {
    sum += change[i]!;
    steps[i] = stride * Math.max(0, sum);
  }
  return steps;
}
