// The experiments of a kernel, and the trials of the one that is looked at.
//
// Both come beside the graph, on the same subscription. Trials are told once asked for; a message that is missing is
// asked for by asking again, from the beginning.

import { Trials } from '../model/trials';
import { type Buffer, isObject } from '../protocol/check';
import type { ExperimentLabel, Request } from '../protocol/messages';
import { decodeExperiments, decodeTrialArrays, decodeTrials, decodeTrialTaskReply } from '../protocol/validators';

export type Steering = (Request & { op: 'steer' })['what'];

export class TrialsLink {
  experiments: readonly ExperimentLabel[] = [];
  readonly trials = new Trials();
  private watched = { path: '', metric: '' };
  private expected = 0;

  constructor(
    private readonly commId: string,
    private readonly ask: (request: Request) => Promise<unknown>
  ) {}

  /** Look at this experiment, with curves of this metric ('': the experiment's); at none if `path` is ''. */
  watch(path: string, metric: string): void {
    if (path === this.watched.path && metric === this.watched.metric) {
      return;
    }
    if (path !== this.watched.path) {
      this.trials.clear();
    }
    this.watched = { path, metric };
    this.request();
  }

  /** The subscription has begun anew, and the kernel does not know what is looked at. */
  renew(): void {
    if (this.watched.path) {
      this.request();
    }
  }

  /** Take in what is about experiments; false: it was something else. Throws `ProtocolError` if it cannot be read. */
  receive(data: unknown, buffers: readonly Buffer[]): boolean {
    const type = isObject(data) ? data['type'] : null;
    if (type === 'experiments') {
      this.experiments = decodeExperiments(data).experiments;
      return true;
    }
    if (type !== 'trials') {
      return false;
    }
    const header = decodeTrials(data);
    if (header.path !== this.watched.path || (this.watched.metric && header.metric !== this.watched.metric)) {
      return true; // from before something else was asked for
    }
    if (header.n !== 0 && header.n !== this.expected) {
      if (this.expected >= 0) {
        this.request();
      }
      return true;
    }
    this.trials.apply(header, decodeTrialArrays(header, buffers));
    this.expected = header.n + 1;
    return true;
  }

  /** Stop, pause or resume a trial, or all of them (-1). */
  async steer(path: string, what: Steering, trial: number): Promise<void> {
    await this.ask({ op: 'steer', path, what, trial });
  }

  /** The row of the task of a trial's latest attempt; NONE if it has none. */
  async rowOf(path: string, trial: number): Promise<number> {
    return decodeTrialTaskReply(await this.ask({ op: 'trial_task', path, trial })).row;
  }

  clear(): void {
    this.experiments = [];
    this.trials.clear();
    this.watched = { path: '', metric: '' };
  }

  private request(): void {
    this.expected = -1;
    const { path, metric } = this.watched;
    // Without an answer the kernel has gone, which the connection notices by itself.
    this.ask({ op: 'watch_trials', comm_id: this.commId, path, metric }).catch(() => undefined);
  }
}
