// The tables: everything reachable by key and readable aloud. Only what is in view exists in the page.

import { useMemo, useRef, useState } from 'preact/hooks';
import { integer } from '../../format';
import { NONE } from '../../layout';
import { NEWEST, type Order, type TableName, search, sorted, tableOf } from '../../tables';
import { __ } from '../../text';
import { Mark, ObjectMark } from '../graph/icons';
import type { ViewProps } from '../graph/state';
import { Marked } from '../marked';
import { useScroll } from '../scroll';

const ROW_PX = 30;
const SLACK = 6;
/** Large tables are put in order again at most this often while the graph grows. */
const LARGE = 20_000;
const LARGE_MS = 600;
const NAMES: TableName[] = ['tasks', 'objects', 'actors', 'workers'];

function titleOf(name: TableName): string {
  return { tasks: __('Tasks'), objects: __('Objects'), actors: __('Actors'), workers: __('Workers') }[name];
}

export function Tables({ state, graph }: ViewProps) {
  const tick = state.tick.value;
  const box = useRef<HTMLDivElement>(null);
  const scroll = useScroll(box);
  const [name, setName] = useState<TableName>('tasks');
  const [query, setQuery] = useState('');
  const [order, setOrder] = useState<Order>(NEWEST);
  const [at, setAt] = useState(NONE);

  const filter = state.stateFilter.value;
  const brush = state.brush.value;
  const epoch = graph.n > LARGE ? Math.floor(performance.now() / LARGE_MS) : tick;
  const { table, items } = useMemo(() => {
    const made = tableOf(graph, name, graph.time(performance.now()), brush, filter);
    return { table: made, items: sorted(search(made, query), made.columns, order) };
  }, [graph, epoch, name, query, order, filter, brush]);

  const picked = state.selection.value;
  const pickedRow = picked?.kind === 'task' ? picked.index : NONE;
  const isRows = name === 'tasks' || name === 'objects';
  const chosen = isRows ? items.indexOf(pickedRow) : at;
  const first = Math.max(0, Math.floor(scroll.top / ROW_PX) - SLACK);
  const last = Math.min(items.length, Math.ceil((scroll.top + scroll.height) / ROW_PX) + SLACK);
  const columns = table.columns.filter(column => column.from <= scroll.width);
  const template = { gridTemplateColumns: `16px ${columns.map(({ grow }) => `minmax(0, ${grow}fr)`).join(' ')}` };

  const go = (wish: number) => {
    const position = Math.min(items.length - 1, Math.max(0, wish));
    const item = items[position];
    const element = box.current;
    if (item === undefined || !element) {
      return;
    }
    setAt(position);
    const row = table.row(item);
    state.choose(row === NONE ? null : { kind: 'task', index: row });
    if (position * ROW_PX < element.scrollTop) {
      element.scrollTop = position * ROW_PX;
    } else if ((position + 1) * ROW_PX > element.scrollTop + element.clientHeight) {
      element.scrollTop = (position + 1) * ROW_PX - element.clientHeight;
    }
  };
  const page = Math.max(1, Math.floor(scroll.height / ROW_PX) - 1);
  const steps: Record<string, number> = {
    ArrowDown: chosen + 1,
    ArrowUp: chosen < 0 ? 0 : chosen - 1,
    PageDown: chosen + page,
    PageUp: chosen - page,
    Home: 0,
    End: items.length - 1
  };
  const open = (next: TableName) => {
    setName(next);
    setOrder(next === 'objects' ? { key: 'size', isDescending: true } : next === 'tasks' ? NEWEST : { key: '', isDescending: false });
    setAt(NONE);
    box.current!.scrollTop = 0;
  };
  /** Numbers are wanted large first, names from the beginning; a second time the other way round, then as before. */
  const sortBy = (key: string, isNumber = false) => {
    const isFirst = order.key !== key;
    const isBack = !isFirst && order.isDescending !== isNumber;
    setOrder(isBack ? NEWEST : { key, isDescending: isFirst ? isNumber : !isNumber });
  };

  return (
    <div class="cm-tables">
      <div class="cm-table-tools">
        <span class="cm-kinds" role="radiogroup" aria-label={__('Table')}>
          {NAMES.map(each => (
            <button type="button" role="radio" key={each} aria-checked={each === name} onClick={() => open(each)}>
              {titleOf(each)}
            </button>
          ))}
        </span>
        <Marked state={state} />
        <input
          type="search"
          class="cm-field"
          placeholder={__('Search')}
          aria-label={__('Search in %1: names, cells, states', titleOf(name))}
          value={query}
          onInput={event => setQuery(event.currentTarget.value)}
          onKeyDown={event => event.stopPropagation()}
        />
        <span class="cm-soft">{integer(items.length)}</span>
      </div>
      <div class="cm-row cm-columns" style={template}>
        <span />
        {columns.map(({ key, title, isNumber }) => (
          <button
            type="button"
            key={key}
            class={isNumber ? 'cm-number' : ''}
            title={__('Sort by %1', title)}
            aria-pressed={order.key === key}
            onClick={() => sortBy(key, isNumber)}
          >
            {title}
            {order.key === key && <i aria-hidden="true">{order.isDescending ? ' ↓' : ' ↑'}</i>}
          </button>
        ))}
      </div>
      <div
        ref={box}
        class="cm-list"
        role="grid"
        tabIndex={0}
        aria-label={`${titleOf(name)}, ${integer(items.length)}`}
        aria-rowcount={items.length}
        aria-activedescendant={chosen >= first && chosen < last ? `cm-row-${items[chosen]}` : undefined}
        onKeyDown={event => {
          const step = steps[event.key];
          if (step !== undefined) {
            event.preventDefault();
            event.stopPropagation();
            go(step);
          }
        }}
      >
        <div style={{ height: `${items.length * ROW_PX}px`, position: 'relative' }}>
          {items.slice(first, last).map((item, i) => (
            <div
              key={item}
              id={`cm-row-${item}`}
              class="cm-row"
              role="row"
              aria-rowindex={first + i + 1}
              aria-selected={first + i === chosen}
              style={{ top: `${(first + i) * ROW_PX}px`, ...template }}
              onClick={() => go(first + i)}
            >
              {table.state ? <Mark state={table.state(item)} /> : name === 'objects' ? <ObjectMark /> : <span />}
              {columns.map(({ key, text, isNumber }, k) => (
                <span key={key} role="gridcell" class={`${k ? 'cm-soft' : 'cm-row-name'}${isNumber ? ' cm-number' : ''}`}>
                  {text(item)}
                </span>
              ))}
            </div>
          ))}
        </div>
        {!items.length && <p class="cm-empty cm-soft">{query || brush || filter !== null ? __('Nothing that fits.') : __('None yet.')}</p>}
      </div>
    </div>
  );
}
