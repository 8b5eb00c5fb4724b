// What the reader has chosen to see of experiments; it lasts while other views are open.

import { batch, signal } from '@preact/signals';
import { NONE } from '../../model/rows';
import type { Order } from '../../model/views/table';

export type PlotName = 'curves' | 'parallel' | 'scatter';

export class TrialsChoice {
  /** The experiment's folder; '': the latest. */
  readonly path = signal('');
  readonly trial = signal(NONE);
  readonly plot = signal<PlotName>('curves');
  /** Of the curves, and of what is best; '': the experiment's. */
  readonly metric = signal('');
  /** Whether the axes of values are logarithmic; null: where the values ask for it. */
  readonly isLog = signal<boolean | null>(null);
  /** The dimensions of the scatter plot; '': the first ones. */
  readonly x = signal('');
  readonly y = signal('');
  /** How the table is sorted; null: the best first. */
  readonly order = signal<Order | null>(null);
  /** The result of an action. */
  readonly notice = signal('');

  /** Look at another experiment. */
  open(path: string): void {
    batch(() => {
      this.path.value = path;
      this.trial.value = NONE;
      this.metric.value = '';
      this.isLog.value = null;
      this.x.value = '';
      this.y.value = '';
      this.order.value = null;
      this.notice.value = '';
    });
  }
}
