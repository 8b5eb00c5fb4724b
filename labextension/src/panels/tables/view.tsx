// tables/: the view of the session's tables; never another view.

// The tables of the session.

import { useMemo, useRef, useState } from 'preact/hooks';
import { integer } from '../../i18n/format';
import { __ } from '../../i18n/translate';
import { NONE } from '../../model/rows';
import { NEWEST, type Order, search, sorted } from '../../model/views/table';
import { type TableName, tableOf } from '../../model/views/tables';
import { Choices } from '../shared/choices';
import { Grid } from '../shared/grid';
import { Mark, ObjectMark } from '../shared/icons';
import { Marked } from '../shared/marked';
import { useSearchWish } from '../shared/search_wish';
import type { ViewProps } from '../shared/state';

/** Large tables are sorted again at most this often while the graph grows. */
const LARGE = 20_000;
const LARGE_MS = 600;
const NAMES: TableName[] = ['tasks', 'objects', 'actors', 'workers'];

function titleOf(name: TableName): string {
  return { tasks: __('Tasks'), objects: __('Objects'), actors: __('Actors'), workers: __('Workers') }[name];
}

/** The graph's tab and this table are both called Tasks; a screen reader must tell them apart. */
function nameOf(name: TableName): string {
  return {
    tasks: __('Table of tasks'),
    objects: __('Table of objects'),
    actors: __('Table of actors'),
    workers: __('Table of workers')
  }[name];
}

export function Tables({ state, graph }: ViewProps) {
  const tick = state.tick.value;
  const field = useRef<HTMLInputElement>(null);
  useSearchWish(state, field);
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

  const go = (position: number) => {
    setAt(position);
    const row = table.row(items[position]!);
    state.choose(row === NONE ? null : { kind: 'task', index: row });
  };
  const open = (next: TableName) => {
    setName(next);
    setOrder(
      next === 'objects'
        ? { key: 'size', isDescending: true }
        : next === 'tasks'
          ? NEWEST
          : { key: '', isDescending: false }
    );
    setAt(NONE);
  };

  return (
    <div class="cm-tables">
      <div class="cm-table-tools">
        <Choices
          role="radiogroup"
          label={__('Table')}
          class="cm-kinds"
          items={NAMES.map(key => ({ key, label: titleOf(key), name: nameOf(key) }))}
          chosen={name}
          onChoose={open}
        />
        <Marked state={state} />
        <input
          ref={field}
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
      <Grid
        key={name}
        label={titleOf(name)}
        table={table}
        items={items}
        order={order}
        onOrder={setOrder}
        chosen={chosen}
        onChoose={go}
        mark={item =>
          table.state ? (
            <Mark state={table.state(item)} isHollow={table.isInherited?.(item) ?? false} />
          ) : (
            name === 'objects' && <ObjectMark />
          )
        }
        empty={query || brush || filter !== null ? __('Nothing that fits.') : __('None yet.')}
      />
    </div>
  );
}
