// What an experiment is and how its trials are; the choice of another one, and what can be done with all trials.

import { integer, short, stopwatch } from '../../i18n/format';
import { trialStateName } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import { NONE } from '../../model/rows';
import type { Trials } from '../../model/trials';
import { numberText } from '../../model/views/axis';
import { throughput } from '../../model/views/trials';
import { type ExperimentLabel, TrialState } from '../../protocol/messages';
import type { ViewProps } from '../shared/state';
import { steer, Steering } from './steering';

interface HeadingProps {
  state: ViewProps['state'];
  graph: ViewProps['graph'];
  label: ExperimentLabel;
  trials: Trials;
  experiments: readonly ExperimentLabel[];
  canSteer: boolean;
}

export function Heading({ state, label, trials, experiments, canSteer, graph }: HeadingProps) {
  const { counts } = label;
  const isOver = Number.isFinite(label.ended);
  const seconds = (isOver ? label.ended : graph.time(performance.now())) - label.began;
  const parts = [
    [counts.running, TrialState.running],
    [counts.pending, TrialState.pending],
    [counts.paused, TrialState.paused],
    [counts.ended, TrialState.ended],
    [counts.failed, TrialState.failed]
  ] as const;
  const words = parts.filter(([n]) => n).map(([n, each]) => `${integer(n)} ${trialStateName(each)}`);
  const best = label.best !== NONE && __('best %1 (trial %2)', numberText(label.best_value), integer(label.best));
  const rate = throughput(trials);
  const speed = rate > 0 && __('%1 it/s', short(rate));
  return (
    <div class="cm-table-tools cm-trial-heading">
      {experiments.length > 1 ? (
        <select
          class="cm-select"
          aria-label={__('Experiment')}
          value={label.path}
          onChange={event => state.trials.open(event.currentTarget.value)}
        >
          {experiments.map(({ path, name }) => (
            <option key={path} value={path}>
              {name}
            </option>
          ))}
        </select>
      ) : (
        <b>{label.name}</b>
      )}
      <span class="cm-soft cm-trial-counts" title={label.why}>
        {[...words, best, speed, seconds > 0 && stopwatch(seconds)].filter(Boolean).join('  ·  ')}
      </span>
      <span class="cm-spring" />
      {canSteer && !isOver && (
        <Steering
          isPaused={counts.paused > 0 && !counts.running && !counts.pending}
          names={{
            stop: __('Stop all trials'),
            pause: __('Pause all trials'),
            resume: __('Resume all trials')
          }}
          onSteer={what => void steer(state, label.path, what, NONE)}
        />
      )}
    </div>
  );
}
