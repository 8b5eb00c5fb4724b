// A synthetic search: trials of two kinds of network, stopped early, as the kernel would tell of it.

import { type ExperimentLabel, VERSION } from '../src/protocol/messages';

/** A message of experiments or trials, and its buffers. */
export interface Told {
  data: Record<string, unknown>;
  buffers: ArrayBuffer[];
}

const WORDS = ['adam', 'sgd', 'rmsprop'];
const AT_ONCE = 500;

/** Numbers between 0 and 1 from a seed. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Made {
  lr: number;
  depth: number;
  optimiser: number;
  state: number;
  curve: number[];
}

/** `n` trials of at most `length` results. */
function trialsOf(n: number, length: number): Made[] {
  const next = random(7);
  return Array.from({ length: n }, (_, i) => {
    const lr = 10 ** (-4 + 3 * next());
    const depth = 1 + Math.floor(4 * next());
    const optimiser = Math.floor(3 * next());
    const quality =
      0.97 - 0.05 * Math.abs(Math.log10(lr) + 2.4) - 0.02 * Math.abs(depth - 3) - 0.03 * optimiser * next();
    const isLive = i >= n - 4;
    const reports = isLive ? Math.ceil(length / 3) : quality > 0.86 ? length : Math.ceil(length / [9, 3, 1][i % 3]!);
    const speed = 2 + 6 * next();
    const curve = Array.from(
      { length: reports },
      (_, k) => quality - (quality - 0.1) * Math.exp((-speed * (k + 1)) / length) + 0.012 * (next() - 0.5)
    );
    return { lr, depth, optimiser, state: isLive ? [1, 1, 2, 0][n - 1 - i]! : i % 37 === 5 ? 4 : 3, curve };
  });
}

/** The search as messages: the list of experiments, then the trials. */
export function search(n: number, length: number, path = '/home/me/tune/digits'): Told[] {
  const made = trialsOf(n, length);
  const last = made.map(({ curve }) => curve[curve.length - 1] ?? Number.NaN);
  const best = last.reduce((found, value, i) => (value > last[found]! ? i : found), 0);
  const count = (state: number) => made.filter(trial => trial.state === state).length;
  const label: Omit<ExperimentLabel, 'ended'> & { ended: null } = {
    path,
    name: 'digits',
    metric: 'accuracy',
    mode: 'max',
    began: 0,
    ended: null,
    is_failed: false,
    why: '',
    counts: { pending: count(0), running: count(1), paused: count(2), ended: count(3), failed: count(4) },
    best,
    best_value: last[best]!
  };
  const told: Told[] = [{ data: { type: 'experiments', v: VERSION, experiments: [label] }, buffers: [] }];
  for (let from = 0; from < n; from += AT_ONCE) {
    told.push(trialsFrom(made.slice(from, from + AT_ONCE), from, path, from / AT_ONCE, n - from - AT_ONCE));
  }
  return told;
}

function trialsFrom(made: Made[], first: number, path: string, n: number, behind: number): Told {
  const curves = made.map(({ state, curve }) => (state ? curve : []));
  const total = curves.reduce((sum, curve) => sum + curve.length, 0);
  const last = curves.map(curve => curve[curve.length - 1] ?? Number.NaN);
  const times = [
    ...made.map((_, i) => 0.1 * (first + i)),
    ...made.map(({ state }, i) => (state ? 0.1 * (first + i) + 0.05 : Number.NaN)),
    ...made.map(({ state, curve }, i) => (state > 2 ? 0.1 * (first + i) + 0.02 * curve.length : Number.NaN))
  ];
  const failed = made.flatMap(({ state }, i) =>
    state === 4
      ? [[first + i, 'it has failed', 'ValueError: loss is nan\nloss = criterion(model(x), y)  # In [3], line 12']]
      : []
  );
  return {
    data: {
      type: 'trials',
      v: VERSION,
      n,
      path,
      metric: 'accuracy',
      metrics: ['accuracy', 'loss', 'training_iteration', 'time_total_s'],
      parameters: [
        { name: 'lr', words: [] },
        { name: 'depth', words: [] },
        { name: 'optimiser', words: WORDS }
      ],
      texts: failed,
      told: [],
      behind: Math.max(0, behind),
      changed: made.length,
      values: 4 * made.length,
      settings: 3 * made.length,
      points: total
    },
    buffers: [
      Uint32Array.from(made, (_, i) => first + i),
      Uint8Array.from(made, ({ state }) => state),
      Uint32Array.from(curves, curve => curve.length),
      Float64Array.from(times),
      Float64Array.from([
        ...last,
        ...last.map(value => -Math.log(value)),
        ...curves.map(curve => curve.length || Number.NaN),
        ...curves.map(curve => 0.02 * curve.length)
      ]),
      Float64Array.from([
        ...made.map(({ lr }) => lr),
        ...made.map(({ depth }) => depth),
        ...made.map(({ optimiser }) => optimiser)
      ]),
      Uint32Array.from(curves, curve => curve.length),
      Float32Array.from(curves.flatMap((curve, i) => curve.map((_, k) => 0.1 * (first + i) + 0.05 + 0.02 * (k + 1)))),
      Float32Array.from(curves.flatMap(curve => curve.map((_, k) => k + 1))),
      Float32Array.from(curves.flat())
    ].map(column => column.buffer)
  };
}
