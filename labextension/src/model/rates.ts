// How many tasks have ended, over the last minute and per second. Pure.

/** Samples are kept this long; the header draws them as a line. */
export const HISTORY_S = 60;
/** No view shows samples that are closer together. */
const SAMPLE_S = 0.1;
/** Fewer tasks than this, or a shorter time, give no meaningful rate. */
const TASKS_MIN = 10;
const SPAN_MIN_S = 0.3;

export interface RateSample {
  /** Seconds since the session began. */
  now: number;
  /** Tasks that have ended. */
  ended: number;
}

export class Rates {
  readonly samples: RateSample[] = [];

  add(now: number, ended: number): void {
    const { samples } = this;
    const last = samples[samples.length - 1];
    if (last && samples.length > 1 && now - samples[samples.length - 2]!.now < SAMPLE_S) {
      Object.assign(last, { now, ended });
    } else {
      samples.push({ now, ended });
    }
    while (samples.length && now - samples[0]!.now > HISTORY_S) {
      samples.shift();
    }
  }

  clear(): void {
    this.samples.length = 0;
  }

  /** Tasks that ended per second, over the last `windowS` seconds; 0 where too few have ended for a rate. */
  perSecond(windowS = 2): number {
    const { samples } = this;
    const last = samples[samples.length - 1];
    if (!last) {
      return 0;
    }
    let first = last;
    for (let i = samples.length - 1; i >= 0 && last.now - samples[i]!.now <= windowS; i--) {
      first = samples[i]!;
    }
    const [seconds, ended] = [last.now - first.now, last.ended - first.ended];
    return seconds >= SPAN_MIN_S && ended >= TASKS_MIN ? ended / seconds : 0;
  }
}
