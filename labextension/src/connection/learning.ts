// The runs of learning of a kernel, and their points while the reader looks at them.
//
// Both come beside the graph, on the same subscription. A message that is missing is asked for by asking again, from
// the beginning.

import { LearningRuns } from '../model/learning';
import { type Buffer, isObject } from '../protocol/check';
import type { Request } from '../protocol/messages';
import { decodeLearning, decodeLearningArrays, decodeLearningPoints } from '../protocol/validators';

export class LearningLink {
  readonly runs = new LearningRuns();
  private isWatched = false;
  /** The number of the next message; -1: the one that begins anew has been asked for. */
  private expected = -1;

  constructor(
    private readonly commId: string,
    private readonly ask: (request: Request) => Promise<unknown>
  ) {}

  /** Look at the points of all runs, or no more. */
  watch(wanted: boolean): void {
    if (wanted !== this.isWatched) {
      this.isWatched = wanted;
      this.request();
    }
  }

  /** The subscription has begun anew, and the kernel does not know what is looked at. */
  renew(): void {
    if (this.isWatched) {
      this.request();
    }
  }

  /** Take in what is about learning; false: it was something else. Throws `ProtocolError` if it cannot be read. */
  receive(data: unknown, buffers: readonly Buffer[]): boolean {
    const type = isObject(data) ? data['type'] : null;
    if (type === 'learning') {
      this.runs.list(decodeLearning(data).runs);
      return true;
    }
    if (type !== 'learning_points') {
      return false;
    }
    const header = decodeLearningPoints(data);
    if (header.n !== 0 && header.n !== this.expected) {
      if (this.expected >= 0) {
        this.request();
      }
      return true;
    }
    this.runs.apply(header, decodeLearningArrays(header, buffers));
    this.expected = header.n + 1;
    return true;
  }

  clear(): void {
    this.runs.clear();
    this.isWatched = false;
    this.expected = -1;
  }

  private request(): void {
    this.expected = -1;
    // Without an answer the kernel has gone, which the connection notices by itself.
    this.ask({ op: 'watch_learning', comm_id: this.commId, wanted: this.isWatched }).catch(() => undefined);
  }
}
