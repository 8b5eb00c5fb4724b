// Buttons that stop, pause and resume a trial or an experiment.

import { message } from '../../connection/connection';
import type { Steering as What } from '../../connection/trials';
import { Glyph } from '../shared/icons';
import type { PanelState } from '../shared/state';

export interface SteeringProps {
  isPaused: boolean;
  names: { stop: string; pause: string; resume: string };
  onSteer: (what: What) => void;
}

export function Steering({ isPaused, names, onSteer }: SteeringProps) {
  const what = isPaused ? 'resume' : 'pause';
  return (
    <span class="cm-steering" role="group">
      <button type="button" class="cm-quiet" aria-label={names[what]} title={names[what]} onClick={() => onSteer(what)}>
        <Glyph name={isPaused ? 'play' : 'pause'} />
      </button>
      <button type="button" class="cm-quiet" aria-label={names.stop} title={names.stop} onClick={() => onSteer('stop')}>
        <Glyph name="stop" />
      </button>
    </span>
  );
}

/** Have the kernel do it; what it says is shown. */
export async function steer(state: PanelState, path: string, what: What, trial: number): Promise<void> {
  try {
    await state.connection.peek()?.trials.steer(path, what, trial);
    state.trials.notice.value = '';
  } catch (error) {
    state.trials.notice.value = message(error);
  }
}
