// What the panel's parts share: which connection, what is chosen, what the card says. Views read the signals; truth
// about tasks stays in the model.

import { batch, computed, signal } from '@preact/signals';
import { type Connection, message } from '../../connection';
import { isObject } from '../../decode';
import { size } from '../../format';
import { TaskGraph } from '../../model';
import { Moments } from '../../moments';
import type { State } from '../../protocol';
import { __ } from '../../text';
import type { CanvasOptions, GraphCanvas, Picked, Show } from './canvas';

/** Numbers in the header change at most this often; faster could not be read. */
const TICK_MS = 120;
/** What changed so long ago is drawn without a transition. */
const FADED_MS = 60_000;

export type View = 'graph' | 'timeline' | 'tables' | 'memory' | 'machine' | 'logs';

export interface Card {
  row: number;
  isLoading: boolean;
  html: string;
  text: string;
  error: string;
  /** Whether anybody holds the value, so that it can be fetched. */
  isHeld: boolean;
}

/** What the reader has chosen to see. */
export interface Choice {
  view: View;
  show: Show;
  stateFilter: State | null;
  picked: Picked | null;
  /** Whose row is picked. */
  session: string;
}

/** What a view is made from. */
export interface ViewProps {
  state: PanelState;
  graph: TaskGraph;
  options: CanvasOptions;
}

export class PanelState {
  readonly connection = signal<Connection | null>(null);
  readonly view = signal<View>('graph');
  readonly show = signal<Show>('auto');
  /** The canvas, while there is one. */
  readonly canvas = signal<GraphCanvas | null>(null);
  readonly showsGroups = signal(false);
  readonly isFollowing = signal(true);
  readonly stateFilter = signal<State | null>(null);
  /** A stretch of the session, in seconds: rows that ran in it are lit, or listed, and the others are not. */
  readonly brush = signal<readonly [number, number] | null>(null);
  readonly selection = signal<Picked | null>(null);
  readonly card = signal<Card | null>(null);
  /** What an action on the chosen row led to. */
  readonly notice = signal('');
  /** Changes when the header's numbers should be read again. */
  readonly tick = signal(0);
  /** Changes when the page wears another theme. */
  readonly look = signal(0);
  /** The moment of the past that is shown, in seconds since the session began; null: the present. */
  readonly moment = signal<number | null>(null);
  /** Stay with this notebook, whichever is in front; null: there is no choice. */
  readonly isPinned = signal<boolean | null>(null);
  /** What came of saving the session. */
  readonly saved = signal<{ path: string; text: string; isDone: boolean } | null>(null);
  /** Why there is nothing to show, where no connection could say it: a file that is no recording. */
  readonly problem = signal('');
  readonly status = computed(() => (this.problem.value ? 'failed' : (this.connection.value?.status.value ?? 'none')));
  /** Called after each message; the canvas draws. */
  onChange: (() => void) | null = null;
  /** The session as it was at `moment`. */
  private readonly past = new TaskGraph();
  private moments: Moments | null = null;
  private timer = 0;
  private session = '';
  private isEmpty = true;
  /** What was chosen before the page was loaded again, until there is a connection. */
  before: Choice | null = null;
  private wanted: { picked: Picked; session: string } | null = null;

  constructor() {
    this.past.isStill = true;
  }

  /** What the views show: the session as it is, or as it was. */
  get graph(): TaskGraph | null {
    return this.moment.value === null ? (this.connection.value?.graph ?? null) : this.past;
  }

  /** Show the session as it was at a time, or with null as it is. */
  goTo(at: number | null): void {
    const live = this.connection.peek()?.graph;
    if (!live || at === null) {
      this.moment.value = null;
    } else {
      const from = this.moment.peek();
      this.moments ??= new Moments(live);
      const canGoOn = from !== null && this.past.session === live.session && this.moments.rowsAt(from) === this.past.n;
      const isBack = canGoOn && at < from;
      if (isBack) {
        this.past.rewind(this.moments.rowsAt(at), at);
      }
      // What has been there before does not fade in.
      const clockMs = performance.now() - (canGoOn && !isBack ? 0 : FADED_MS);
      this.past.apply(this.moments.message(at, canGoOn ? from : null), clockMs);
      this.moment.value = at;
    }
    this.onChange?.();
    this.tick.value++;
  }

  connect(connection: Connection | null): void {
    const before = this.connection.peek();
    if (before === connection) {
      return;
    }
    if (before) {
      before.onChange = null;
    }
    if (connection) {
      connection.onChange = () => this.changed();
    }
    batch(() => {
      this.connection.value = connection;
      this.moments = null;
      this.moment.value = null;
      this.saved.value = null;
      this.choose(null);
      this.stateFilter.value = null;
      this.brush.value = null;
      this.show.value = 'auto';
      this.tick.value++;
    });
    if (connection && this.before) {
      this.goOnFrom(this.before);
      this.before = null;
    }
  }

  get choice(): Choice {
    return {
      view: this.view.peek(),
      show: this.show.peek(),
      stateFilter: this.stateFilter.peek(),
      ...(this.wanted ?? { picked: this.selection.peek(), session: this.session })
    };
  }

  /** Show what another view showed; the row that was chosen there is chosen here once it is known here. */
  goOnFrom({ view, show, stateFilter, picked, session }: Choice): void {
    batch(() => {
      this.view.value = view;
      this.show.value = show;
      this.stateFilter.value = stateFilter;
    });
    this.wanted = picked ? { picked, session } : null;
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.connect(null);
    this.onChange = null;
  }

  choose(picked: Picked | null): void {
    batch(() => {
      this.selection.value = picked;
      this.notice.value = '';
      if (picked?.kind !== 'task') {
        this.card.value = null;
      }
    });
    if (picked?.kind === 'task') {
      void this.loadCard(picked.index);
    }
  }

  /** Read a row's card again: its state has changed. */
  async loadCard(row: number): Promise<void> {
    const connection = this.connection.peek();
    if (!connection) {
      return;
    }
    const before = this.card.peek();
    const isSame = before?.row === row;
    this.card.value = isSame ? { ...before, isLoading: true } : { row, isLoading: true, html: '', text: '', error: '', isHeld: true };
    const card: Card = { row, isLoading: false, html: '', text: '', error: '', isHeld: true };
    try {
      const reply = await connection.ask({ op: 'card', row });
      card.html = typeof reply['html'] === 'string' ? reply['html'] : '';
      card.text = typeof reply['text'] === 'string' ? reply['text'] : '';
      card.isHeld = !isObject(reply['data']) || reply['data']['id'] !== ''; // only values that are held have one
    } catch (error) {
      card.error = message(error);
    }
    if (this.card.peek()?.row === row) {
      this.card.value = card;
    }
  }

  async cancel(row: number, force: boolean): Promise<void> {
    await this.act(async connection => {
      const reply = await connection.ask({ op: 'cancel', row, force });
      return reply['outcome'] === 'finished' ? __('It had already ended.') : force ? __('Its worker was ended.') : __('Cancelled.');
    });
  }

  async retry(row: number): Promise<void> {
    await this.act(async connection => {
      const { bound } = await connection.ask({ op: 'retry', row });
      return Array.isArray(bound) && bound.length > 0 ? __('Submitted again. The new future: %1.', bound.join(', ')) : __('Submitted again.');
    });
  }

  async fetch(row: number, name: string): Promise<void> {
    await this.act(async connection => {
      await connection.ask({ op: 'fetch', row, name });
      return __('The value is now in the notebook as %1.', name);
    });
  }

  /** Have the kernel write the session into a file. */
  async save(path: string): Promise<void> {
    const connection = this.connection.peek();
    if (!connection) {
      return;
    }
    this.saved.value = { path, text: __('Saving %1 …', path), isDone: false };
    try {
      const reply = await connection.ask({ op: 'save', path });
      this.saved.value = { path, text: __('Saved %1, %2.', path, size(Number(reply['size']))), isDone: true };
    } catch (error) {
      this.saved.value = { path, text: message(error), isDone: false };
    }
  }

  private async act(action: (connection: Connection) => Promise<string>): Promise<void> {
    const connection = this.connection.peek();
    if (!connection) {
      return;
    }
    const chosen = this.selection.peek();
    let notice: string;
    try {
      notice = await action(connection);
    } catch (error) {
      notice = message(error);
    }
    if (this.selection.peek() === chosen) {
      this.notice.value = notice;
    }
  }

  private chooseWanted(): void {
    const graph = this.connection.peek()?.graph;
    if (!this.wanted || !graph) {
      return;
    }
    const { picked, session } = this.wanted;
    if (session !== graph.session) {
      this.wanted = null;
    } else if (picked.index < (picked.kind === 'task' ? graph.n : graph.groups.list.length)) {
      this.wanted = null;
      this.choose(picked);
    }
  }

  private changed(): void {
    const session = this.connection.peek()?.graph.session ?? '';
    if (session !== this.session) {
      this.session = session;
      this.goTo(null);
      this.choose(null); // rows of another session are other rows
    }
    this.chooseWanted();
    this.onChange?.();
    const isFirst = this.isEmpty;
    this.isEmpty = !this.connection.peek()?.graph.n;
    if (isFirst && !this.isEmpty) {
      this.tick.value++; // there is a picture: at once
    }
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.tick.value++;
    }, TICK_MS);
  }
}
