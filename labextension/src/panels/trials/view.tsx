// The view of trials: of the experiment that is chosen, or the latest one. Loaded when first opened.

import { useEffect, useMemo } from 'preact/hooks';
import { __ } from '../../i18n/translate';
import type { ViewProps } from '../shared/state';
import { watch } from '../shared/watch';
import { Explorer } from './explorer';
import { Heading } from './heading';

export function Trials({ state, graph }: ViewProps) {
  watch(state.tick);
  const choice = state.trials;
  const link = state.connection.value?.trials;
  const isRecording = state.connection.value?.transport.isRecording === true;
  const moment = state.moment.value;
  const experiments = link?.experiments ?? [];
  const label = experiments.find(({ path }) => path === choice.path.value) ?? experiments[experiments.length - 1];
  const path = label?.path ?? '';
  const wish = choice.metric.value;
  useEffect(() => link?.watch(path, wish), [link, path, wish]);
  useEffect(() => () => link?.watch('', ''), [link]);
  const live = link?.trials;
  const trials = useMemo(
    () => (live && moment !== null ? live.at(moment) : live),
    [live, moment, moment === null ? 0 : live?.version]
  );
  if (!label || !trials) {
    return <p class="cm-empty cm-soft">{__('No search has begun yet: cellmesh.tune begins one.')}</p>;
  }
  const now = moment ?? graph.time(performance.now());
  // Running times are shown by the second.
  const clock = label.counts.running && moment === null ? Math.floor(now) : '';
  return (
    <div class="cm-tables cm-trials">
      <Heading
        state={state}
        label={label}
        trials={trials}
        experiments={experiments}
        canSteer={!isRecording}
        graph={graph}
      />
      {choice.notice.value && <p class="cm-gap cm-soft">{choice.notice.value}</p>}
      <Explorer
        key={path}
        state={state}
        label={label}
        trials={trials}
        now={now}
        canSteer={!isRecording && moment === null}
        version={`${trials.version} ${moment ?? ''} ${clock}`}
      />
    </div>
  );
}
