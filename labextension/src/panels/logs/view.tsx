// logs/: the view of what tasks print; never another view.

// The logs: lines that tasks have printed, live, by time or by task, with a search. Loaded when first opened.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { message } from '../../connection/connection';
import { integer, stopwatch } from '../../i18n/format';
import { __, _n } from '../../i18n/translate';
import { LogBook, nameOf, printedAt, select, type Sort } from '../../model/views/logs';
import type { State } from '../../protocol/messages';
import { decodeLogsReply } from '../../protocol/validators';
import { Choices } from '../shared/choices';
import { Mark } from '../shared/icons';
import { Marked } from '../shared/marked';
import { useScroll } from '../shared/scroll';
import { useSearchWish } from '../shared/search_wish';
import type { ViewProps } from '../shared/state';

const ROW_PX = 20;
const SLACK = 10;
/** The kernel is asked at most this often. */
const ASK_MS = 1000;
/** An unfinished line counts as a line after a second, so asking again after this time is worthwhile. */
const N_TRIES = 2;

export function Logs({ state, graph }: ViewProps) {
  const tick = state.tick.value;
  const connection = state.connection.value;
  const live = connection?.graph ?? graph;
  const book = useMemo(() => new LogBook(), [connection, live.session]);
  const [version, setVersion] = useState(0);
  const [problem, setProblem] = useState('');
  const [words, setWords] = useState('');
  const [sort, setSort] = useState<Sort>('time');
  const [onlyChosen, setOnlyChosen] = useState(false);
  const [onlyErrors, setOnlyErrors] = useState(false);
  const [follows, setFollows] = useState(true);
  const asking = useRef({ isUnderWay: false, seen: -1, tries: 0, timer: 0 });

  useEffect(() => {
    asking.current = { isUnderWay: false, seen: -1, tries: 0, timer: 0 };
    return () => clearTimeout(asking.current.timer);
  }, [book]);
  useEffect(() => {
    const now = asking.current;
    const ask = async () => {
      now.isUnderWay = true;
      now.seen = live.lines;
      try {
        const isMore = book.add(decodeLogsReply(await connection!.ask({ op: 'logs', after: book.next })));
        now.tries = isMore ? 0 : now.tries + 1;
        setProblem('');
        setVersion(book.version);
        now.timer = window.setTimeout(() => {
          now.isUnderWay = false;
          if (
            asking.current === now &&
            (isMore || live.lines !== now.seen || (book.next < live.lines && now.tries < N_TRIES))
          ) {
            void ask();
          }
        }, ASK_MS);
      } catch (error) {
        now.isUnderWay = false;
        setProblem(message(error));
      }
    };
    if (connection && !now.isUnderWay && now.seen !== live.lines) {
      now.tries = 0;
      void ask();
    }
  }, [book, connection, live.lines, tick]);

  const picked = state.selection.value;
  const chosen = picked?.kind === 'task' ? picked.index : null;
  const until = state.moment.value;
  const during = state.brush.value;
  const lines = useMemo(
    () =>
      select(book, live, {
        words,
        row: onlyChosen ? chosen : null,
        stream: onlyErrors ? 'stderr' : null,
        until,
        during,
        sort
      }),
    [
      book,
      version,
      words,
      sort,
      onlyChosen ? chosen : null,
      onlyErrors,
      until,
      during,
      live.n === 0,
      until === null && !during ? 0 : live.version
    ]
  );
  const box = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  useSearchWish(state, field);
  const { top, height } = useScroll(box);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && follows && sort === 'time') {
      element.scrollTop = element.scrollHeight;
    }
  }, [lines, follows, sort, height]);
  const first = Math.max(0, Math.floor(top / ROW_PX) - SLACK);
  const last = Math.min(lines.length, Math.ceil((top + height) / ROW_PX) + SLACK);

  return (
    <div class="cm-tables cm-logs">
      <div class="cm-table-tools">
        <Choices<Sort>
          role="radiogroup"
          label={__('Order')}
          class="cm-kinds"
          items={[
            { key: 'time', label: __('By time') },
            { key: 'task', label: __('By task') }
          ]}
          chosen={sort}
          onChoose={setSort}
        />
        <button
          type="button"
          class="cm-toggle"
          aria-pressed={onlyErrors}
          title={__('Only what was printed to stderr')}
          onClick={() => setOnlyErrors(!onlyErrors)}
        >
          stderr
        </button>
        {chosen !== null && (
          <button type="button" class="cm-toggle" aria-pressed={onlyChosen} onClick={() => setOnlyChosen(!onlyChosen)}>
            {__('Only %1', chosen < live.n ? live.name(chosen) : '')}
          </button>
        )}
        <Marked state={state} />
        <input
          ref={field}
          type="search"
          class="cm-field"
          placeholder={__('Search')}
          aria-label={__('Search in logs: texts and names of tasks')}
          value={words}
          onInput={event => setWords(event.currentTarget.value)}
          onKeyDown={event => event.stopPropagation()}
        />
        <span class="cm-soft">{integer(lines.length)}</span>
      </div>
      {(problem || book.nMissing > 0) && (
        <p class="cm-gap cm-soft">
          {problem || _n('%2 older line is no longer known.', '%2 older lines are no longer known.', book.nMissing)}
        </p>
      )}
      <div
        ref={box}
        class="cm-list"
        role="log"
        tabIndex={0}
        aria-label={_n('%2 line', '%2 lines', lines.length)}
        onScroll={event => {
          const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
          setFollows(scrollTop + clientHeight >= scrollHeight - 2 * ROW_PX);
        }}
      >
        <div style={{ height: `${lines.length * ROW_PX}px`, position: 'relative' }}>
          {lines.slice(first, last).map((line, i) => {
            const at = first + i;
            const isSame = at > 0 && lines[at - 1]!.row === line.row;
            const classes = [
              'cm-line-row',
              line.stream === 'stderr' && 'cm-stderr',
              line.row === chosen && line.row >= 0 && 'cm-chosen',
              !isSame && sort !== 'time' && 'cm-first'
            ];
            return (
              <div
                key={at}
                class={classes.filter(Boolean).join(' ')}
                style={{ top: `${at * ROW_PX}px` }}
                title={line.text}
                onClick={() =>
                  state.choose(line.row >= 0 && line.row < graph.n ? { kind: 'task', index: line.row } : null)
                }
              >
                <span class="cm-soft cm-when">{stopwatch(printedAt(live, line))}</span>
                <span class="cm-who">
                  {!isSame && line.row >= 0 && line.row < live.n && <Mark state={live.state[line.row] as State} />}
                  {isSame ? '' : nameOf(live, line) || __('pid %1', line.pid)}
                </span>
                <span class="cm-said">{line.text || ' '}</span>
              </div>
            );
          })}
        </div>
        {!lines.length && (
          <p class="cm-empty cm-soft">
            {words || onlyErrors || onlyChosen || during
              ? __('Nothing that fits.')
              : __('No task has printed anything since this notebook loaded cellmesh.')}
          </p>
        )}
      </div>
    </div>
  );
}
