// Synthetic runs of learning, as the kernel would tell of them.

import type { LearningLabel, RunState } from '../src/protocol/messages';
import { VERSION } from '../src/protocol/messages';
import type { Told } from './search';

const METRICS = [
  'episode_return_mean',
  'episode_return_min',
  'episode_return_max',
  'episode_length_mean',
  'timesteps_total',
  'training_iteration',
  'time_total_s',
  'steps_per_s',
  'policy_loss',
  'entropy'
];
const STATES: readonly RunState[] = ['reached', 'stopped', 'diverged', 'paused', 'running'];

/** A result of a run; `of`: of how many. */
function result(run: number, i: number, of: number): number[] {
  const speed = 3 + 2 * run;
  const mean = 475 * (1 - Math.exp((-speed * i) / of)) + 20 * Math.sin(i * (1 + run));
  const steps = 2048 * (i + 1);
  return [
    ...[i ? mean : Number.NaN, i ? 0.7 * mean : Number.NaN, i ? Math.min(500, 1.2 * mean) : Number.NaN, mean],
    ...[steps, i + 1, 0.5 * (i + 1) * (1 + 0.3 * run), 4000 / (1 + 0.3 * run)],
    ...[0.5 * Math.exp((-4 * i) / of), 0.69 * Math.exp((-2 * i) / of)]
  ];
}

/** The runs as messages: the list, then the points of each. They begin ten seconds after each other. */
export function learning(n: number, length: number): Told[] {
  const began = (run: number) => 10 * run;
  const labels = Array.from({ length: n }, (_, run): Omit<LearningLabel, 'ended'> & { ended: number | null } => {
    const state = STATES[(run + STATES.length - (n % STATES.length)) % STATES.length]!;
    const isOver = state !== 'running' && state !== 'paused';
    return {
      run,
      title: `${['PPO', 'DQN', 'ES'][run % 3]} on CartPole-v1`,
      settings: `n_envs=8, lr=${0.0003 * (run + 1)}, seed=${run}`,
      state,
      why: state === 'diverged' ? 'policy_loss is NaN in iteration 12' : '',
      began: began(run),
      ended: isOver ? began(run) + 0.5 * length : null,
      goal: 'episode_return_mean',
      goal_value: 450,
      results: length
    };
  });
  return [
    { data: { type: 'learning', v: VERSION, runs: labels }, buffers: [] },
    ...labels.map(({ run }) => pointsOf(run, run, length))
  ];
}

/** The points of a run from the number `first` on. */
export function pointsOf(n: number, run: number, length: number, first = 0): Told {
  const numbers = Array.from({ length: length - first }, (_, i) => first + i);
  const values = [
    ...numbers.map(i => 10 * run + 0.5 * (i + 1)),
    ...METRICS.flatMap((_, k) => numbers.map(i => result(run, i, length)[k]!))
  ];
  return {
    data: {
      type: 'learning_points',
      v: VERSION,
      n,
      run,
      metrics: METRICS,
      first,
      points: numbers.length,
      values: values.length
    },
    buffers: [Float64Array.from(values).buffer]
  };
}
