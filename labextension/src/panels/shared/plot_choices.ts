// What the reader has chosen to see of experiments and of runs of learning; it lasts while other views are open.

import { batch, signal } from '@preact/signals';
import { NONE } from '../../model/rows';
import type { Over } from '../../model/views/learning';
import { NEWEST, type Order } from '../../model/views/table';

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

export class LearningChoice {
  /** The run that stands out; NONE: none does. */
  readonly run = signal(NONE);
  /** What is plotted; '': the return, or what stands for it. */
  readonly metric = signal('');
  /** What it is plotted over; '': steps, where they are counted. */
  readonly over = signal<Over | ''>('');
  /** Whether the axis of values is logarithmic; null: where losses ask for it. */
  readonly isLog = signal<boolean | null>(null);
  /** How the table is sorted. */
  readonly order = signal<Order>(NEWEST);
  /** What runs are searched for; the others are not shown. */
  readonly query = signal('');
}
