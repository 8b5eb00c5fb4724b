// What states are called.

import { State } from './protocol';
import { __ } from './text';

export function stateName(state: State): string {
  switch (state) {
    case State.waiting:
      return __('waiting');
    case State.ready:
      return __('queued');
    case State.running:
      return __('running');
    case State.finished:
      return __('finished');
    case State.failed:
      return __('failed');
    case State.cancelled:
      return __('cancelled');
    case State.retrying:
      return __('retrying');
  }
}

/** What a state means, in a phrase. */
export function stateHint(state: State): string {
  switch (state) {
    case State.waiting:
      return __('waiting for what they depend on');
    case State.ready:
      return __('queued: nothing is missing but a free worker');
    case State.running:
      return __('running now');
    case State.retrying:
      return __('an attempt was lost, the next one is queued');
    default:
      return stateName(state);
  }
}

/** What is said of the state of an actor or a worker: most that are dead were meant to end. */
export function lifeInWords({ state, crashed = false }: { state: string; crashed?: boolean }): string {
  switch (crashed ? 'crashed' : state) {
    case 'crashed':
      return __('crashed');
    case 'dead':
      return __('ended');
    case 'idle':
      return __('idle');
    case 'busy':
      return __('busy');
    case 'blocked':
      return __('blocked');
    case 'actor':
      return __('serves an actor');
    case 'pending':
      return __('pending');
    case 'alive':
      return __('alive');
    case 'restarting':
      return __('restarting');
    default:
      return state;
  }
}
