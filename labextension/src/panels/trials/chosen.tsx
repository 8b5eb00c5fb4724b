// trials/: the view of an experiment's trials; never another view.

// The trial that is chosen: its parameters and results, what can be done with it, and what it has failed with.

import { integer, short } from '../../i18n/format';
import { trialStateName } from '../../i18n/states';
import { __ } from '../../i18n/translate';
import type { Trials } from '../../model/trials';
import { numberText } from '../../model/views/axis';
import { iterationsPerSecond, settingText, stateOf } from '../../model/views/trials';
import { TrialState } from '../../protocol/messages';
import { ChooseNone } from '../shared/choices';
import { Mark } from '../shared/icons';
import { Steering, type SteeringProps } from './steering';

interface ChosenProps {
  trials: Trials;
  trial: number;
  canSteer: boolean;
  onSteer: SteeringProps['onSteer'];
  /** null: it cannot be shown. */
  onTask: (() => void) | null;
  onClose: () => void;
}

export function Chosen({ trials, trial, canSteer, onSteer, onTask, onClose }: ChosenProps) {
  const state = trials.state[trial] as TrialState;
  const isOver = state === TrialState.ended || state === TrialState.failed;
  const error = trials.errors.get(trial);
  const why = trials.why.get(trial);
  const rate = iterationsPerSecond(trials, trial);
  return (
    <section class="cm-trial" aria-label={__('Trial %1', integer(trial))}>
      <div class="cm-trial-line">
        <Mark state={stateOf(trials, trial)} />
        <b>{__('Trial %1', integer(trial))}</b>
        <span class="cm-soft">{why ? `${trialStateName(state)}: ${why}` : trialStateName(state)}</span>
        <span class="cm-spring" />
        {canSteer && !isOver && (
          <Steering
            isPaused={state === TrialState.paused}
            names={{
              stop: __('Stop trial %1', integer(trial)),
              pause: __('Pause trial %1', integer(trial)),
              resume: __('Resume trial %1', integer(trial))
            }}
            onSteer={onSteer}
          />
        )}
        {onTask && (
          <button
            type="button"
            class="cm-toggle"
            title={__('The card of its task: its cell, what it printed')}
            onClick={onTask}
          >
            {__('Task')}
          </button>
        )}
        <ChooseNone onClick={onClose} />
      </div>
      <dl>
        {[...trials.parameters.keys()].map(name => {
          const text = settingText(trials, name, trial);
          return (
            text && (
              <div key={`parameter ${name}`}>
                <dt>{name}</dt>
                <dd>{text}</dd>
              </div>
            )
          );
        })}
        {[...trials.metrics].map(([name, column]) => {
          const text = numberText(column[trial]!);
          return (
            text && (
              <div key={`metric ${name}`} class="cm-trial-result">
                <dt>{name}</dt>
                <dd>{text}</dd>
              </div>
            )
          );
        })}
        {state === TrialState.running && rate > 0 && (
          <div class="cm-trial-result">
            <dt>{__('iterations/s')}</dt>
            <dd>{short(rate)}</dd>
          </div>
        )}
      </dl>
      {error && <pre class="cm-trial-error">{error}</pre>}
    </section>
  );
}
