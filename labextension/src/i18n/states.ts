// The names of states.

import { type ActorState, type RunState, State, TrialState, type WorkerState } from '../protocol/messages';
import { __ } from './translate';

export function stateName(state: State): string {
  switch (state) {
    case State.waiting:
      return __('waiting');
    case State.queued:
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

export function trialStateName(state: TrialState): string {
  switch (state) {
    case TrialState.pending:
      return __('waiting');
    case TrialState.running:
      return __('running');
    case TrialState.paused:
      return __('paused');
    case TrialState.ended:
      return __('ended');
    case TrialState.failed:
      return __('failed');
  }
}

/** The state of a run of learning. */
export function runStateName(state: RunState): string {
  switch (state) {
    case 'running':
      return __('running');
    case 'paused':
      return __('paused');
    case 'reached':
      return __('goal reached');
    case 'stopped':
      return __('stopped');
    case 'diverged':
      return __('diverged');
    case 'failed':
      return __('failed');
  }
}

/** What a state means, in a phrase. */
export function stateHint(state: State): string {
  switch (state) {
    case State.waiting:
      return __('waiting for what they depend on');
    case State.queued:
      return __('queued: nothing is missing but a free worker');
    case State.running:
      return __('running now');
    case State.retrying:
      return __('an attempt was lost, the next one is queued');
    default:
      return stateName(state);
  }
}

/** An actor's state in the words of listings and cards. */
export function actorInWords(actor: { state: ActorState; crashed: boolean }): string {
  return actor.state === 'dead' && !actor.crashed ? __('dead') : lifeInWords(actor);
}

/** What an actor or a worker of this machine does. */
export type Life = ActorState | Exclude<WorkerState, 'remote'>;

/** The state of a worker or an actor in words. Most dead workers were meant to end. */
export function lifeInWords({ state, crashed = false }: { state: Life; crashed?: boolean }): string {
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
  }
}
