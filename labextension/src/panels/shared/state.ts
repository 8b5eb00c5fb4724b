// The state that the panel's parts share: the connection, what is chosen, the card. Views read the signals; the model
// has the facts about tasks.

import { batch, computed, signal } from '@preact/signals';
import { type Connection, message } from '../../connection/connection';
import { size } from '../../i18n/format';
import { __ } from '../../i18n/translate';
import { apply, rewind } from '../../model/apply';
import { TaskGraph } from '../../model/graph';
import { Moments } from '../../model/history';
import type { State } from '../../protocol/messages';
import { decodeCancelReply, decodeCardReply, decodeRetryReply, decodeSaveReply } from '../../protocol/validators';
import type { CanvasOptions, Picked, Picture, Show } from './picture';
import { LearningChoice, TrialsChoice } from './plot_choices';

/** Numbers in the header change at most this often, so that they can be read. */
const TICK_MS = 120;
/** Changes older than this are drawn without a transition. */
const FADED_MS = 60_000;

export type View = 'graph' | 'timeline' | 'tables' | 'memory' | 'machine' | 'logs' | 'trials' | 'learning';
/** The tabs that the reader chooses among: the graph has several. */
export const TABS = [
  'groups',
  'machines',
  'tasks',
  'timeline',
  'tables',
  'memory',
  'machine',
  'logs',
  'trials',
  'learning'
] as const;
export type Tab = (typeof TABS)[number];

export interface Card {
  row: number;
  isLoading: boolean;
  html: string;
  text: string;
  error: string;
  /** Whether the value still exists, so that it can be fetched. */
  isHeld: boolean;
}

/** What the reader has chosen to see. */
export interface Choice {
  view: View;
  show: Show;
  stateFilter: State | null;
  picked: Picked | null;
  /** The session of the picked row. */
  session: string;
}

/** The properties of a view. */
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
  readonly canvas = signal<Picture | null>(null);
  readonly showsGroups = signal(false);
  readonly isFollowing = signal(true);
  readonly stateFilter = signal<State | null>(null);
  /** A stretch of the session, in seconds: rows that ran in it are lit, or listed, and the others are not. */
  readonly brush = signal<readonly [number, number] | null>(null);
  readonly selection = signal<Picked | null>(null);
  /** Another view hides the card, which would cover it, but keeps the selection. */
  readonly isCardOpen = signal(true);
  /** The next search field should take the focus. */
  readonly wantsSearch = signal(false);
  /** The name of a file to save the session in is being asked for. */
  readonly isNaming = signal(false);
  readonly card = signal<Card | null>(null);
  /** The result of an action on the chosen row. */
  readonly notice = signal('');
  /** Changes when the header's numbers should be read again. */
  readonly tick = signal(0);
  /** Changes when the page's theme changes. */
  readonly look = signal(0);
  /** The moment of the past that is shown, in seconds since the session began; null: the present. */
  readonly moment = signal<number | null>(null);
  /** Whether to stay with this notebook whichever is in front; null: there is no choice. */
  readonly isPinned = signal<boolean | null>(null);
  /** The result of saving the session. */
  readonly saved = signal<{ path: string; text: string; isDone: boolean } | null>(null);
  /** Why there is nothing to show and no connection to say so: the file is no recording. */
  readonly problem = signal('');
  readonly status = computed(() => (this.problem.value ? 'failed' : (this.connection.value?.status.value ?? 'none')));
  /** Called after each message; the canvas draws. */
  onChange: (() => void) | null = null;
  /** The session as it was at `moment`. */
  private readonly past = new TaskGraph();
  readonly trials = new TrialsChoice();
  readonly learning = new LearningChoice();
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

  /** What the views show: the present session, or a moment of its past. */
  get graph(): TaskGraph | null {
    return this.moment.value === null ? (this.connection.value?.graph ?? null) : this.past;
  }

  /** Several machines make one more picture, experiments of Tune one more view, and so do runs of learning. */
  get tabs(): Tab[] {
    const connection = this.connection.value;
    const isThere = (tab: Tab) => {
      switch (tab) {
        case 'machines':
          return connection?.graph.isClustered;
        case 'trials':
          return connection?.trials.experiments.length || this.view.value === tab;
        case 'learning':
          return connection?.learning.runs.labels.length || this.view.value === tab;
        default:
          return true;
      }
    };
    return TABS.filter(isThere);
  }

  get tab(): Tab {
    const view = this.view.value;
    if (view !== 'graph') {
      return view;
    }
    const isByMachine = this.show.value === 'machines' && this.connection.value?.graph.isClustered;
    return !this.showsGroups.value ? 'tasks' : isByMachine ? 'machines' : 'groups';
  }

  showTab(tab: Tab): void {
    if (tab === this.tab) {
      return;
    }
    batch(() => {
      this.isCardOpen.value = false;
      if (tab !== 'groups' && tab !== 'tasks' && tab !== 'machines') {
        this.view.value = tab;
        return;
      }
      this.view.value = 'graph';
      this.show.value = tab;
      this.showsGroups.value = tab !== 'tasks';
      this.canvas.peek()?.setShow(tab);
    });
  }

  /** Do something with the canvas of the graph, as soon as there is one. */
  whenDrawn(act: (canvas: Picture) => void): void {
    const stop = this.canvas.subscribe(canvas => {
      if (canvas) {
        act(canvas);
        queueMicrotask(() => stop());
      }
    });
  }

  /** Show a view with a search field and focus that. */
  search(): void {
    if (this.view.peek() !== 'logs') {
      this.showTab('tables');
    }
    this.wantsSearch.value = true;
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
        rewind(this.past, this.moments.rowsAt(at), at);
      }
      // Rows that existed before do not fade in.
      const clockMs = performance.now() - (canGoOn && !isBack ? 0 : FADED_MS);
      apply(this.past, this.moments.message(at, canGoOn ? from : null), clockMs);
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
      this.isCardOpen.value = true;
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
    this.card.value = isSame
      ? { ...before, isLoading: true }
      : { row, isLoading: true, html: '', text: '', error: '', isHeld: true };
    const card: Card = { row, isLoading: false, html: '', text: '', error: '', isHeld: true };
    try {
      const { html, text, data } = decodeCardReply(await connection.ask({ op: 'card', row }));
      // Only values that are held have an id.
      Object.assign(card, { html, text, isHeld: data['id'] !== '' });
    } catch (error) {
      card.error = message(error);
    }
    if (this.card.peek()?.row === row) {
      this.card.value = card;
    }
  }

  async cancel(row: number, force: boolean): Promise<void> {
    await this.act(async connection => {
      const { outcome } = decodeCancelReply(await connection.ask({ op: 'cancel', row, force }));
      return outcome === 'finished'
        ? __('It had already ended.')
        : force
          ? __('Its worker was ended.')
          : __('Cancelled.');
    });
  }

  async retry(row: number): Promise<void> {
    await this.act(async connection => {
      const { bound } = decodeRetryReply(await connection.ask({ op: 'retry', row }));
      return bound.length > 0 ? __('Submitted again. The new future: %1.', bound.join(', ')) : __('Submitted again.');
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
      const saved = decodeSaveReply(await connection.ask({ op: 'save', path }));
      this.saved.value = { path, text: __('Saved %1, %2.', path, size(saved.size)), isDone: true };
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
      this.tick.value++; // there is a picture now, which should appear at once
    }
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.tick.value++;
    }, TICK_MS);
  }
}
