// A table on the page, accessible by keyboard and to screen readers. Only the rows in view exist in the page.

import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { integer } from '../../i18n/format';
import { __ } from '../../i18n/translate';
import { NEWEST, type Order, type Table } from '../../model/views/table';
import { useScroll } from './scroll';
import { useUniqueId } from './unique';

const ROW_PX = 30;
const SLACK = 6;

interface GridProps {
  label: string;
  table: Table;
  /** What is shown of the table, in order. */
  items: readonly number[];
  order: Order;
  onOrder: (order: Order) => void;
  /** The position of the row that is chosen; NONE if there is none. */
  chosen: number;
  onChoose: (position: number) => void;
  /** The mark before a row. */
  mark: (item: number) => ComponentChildren;
  /** What stands in a column that is drawn; columns for which it is undefined have text. */
  draw?: (key: string, item: number) => ComponentChildren;
  empty: string;
}

export function Grid({ label, table, items, order, onOrder, chosen, onChoose, mark, draw, empty }: GridProps) {
  const id = useUniqueId();
  const box = useRef<HTMLDivElement>(null);
  const scroll = useScroll(box);
  const first = Math.max(0, Math.floor(scroll.top / ROW_PX) - SLACK);
  const last = Math.min(items.length, Math.ceil((scroll.top + scroll.height) / ROW_PX) + SLACK);
  const columns = table.columns.filter(column => column.from <= scroll.width);
  const template = { gridTemplateColumns: `16px ${columns.map(({ grow }) => `minmax(0, ${grow}fr)`).join(' ')}` };
  const go = (wish: number) => {
    const position = Math.min(items.length - 1, Math.max(0, wish));
    const element = box.current;
    if (position < 0 || !element) {
      return;
    }
    onChoose(position);
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
  /** A click sorts numbers descending and names ascending; a second click reverses, a third restores the order. */
  const sortBy = (key: string, isNumber = false) => {
    const isFirst = order.key !== key;
    const isBack = !isFirst && order.isDescending !== isNumber;
    onOrder(isBack ? NEWEST : { key, isDescending: isFirst ? isNumber : !isNumber });
  };
  return (
    <div
      class="cm-grid"
      role="grid"
      tabIndex={0}
      aria-label={`${label}, ${integer(items.length)}`}
      aria-rowcount={items.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={chosen >= first && chosen < last ? `${id}-${items[chosen]}` : undefined}
      onKeyDown={event => {
        const step = steps[event.key];
        if (step !== undefined) {
          event.preventDefault();
          event.stopPropagation();
          go(step);
        }
      }}
    >
      <div class="cm-row cm-columns" role="row" aria-rowindex={1} style={template}>
        <span role="presentation" />
        {columns.map(({ key, title, isNumber }) => (
          <span
            key={key}
            role="columnheader"
            class={isNumber ? 'cm-number' : ''}
            aria-sort={order.key !== key ? 'none' : order.isDescending ? 'descending' : 'ascending'}
          >
            <button type="button" title={__('Sort by %1', title)} onClick={() => sortBy(key, isNumber)}>
              {title}
              {order.key === key && <i aria-hidden="true">{order.isDescending ? ' ↓' : ' ↑'}</i>}
            </button>
          </span>
        ))}
      </div>
      <div ref={box} class="cm-list" role="rowgroup" tabIndex={-1}>
        <div role="presentation" style={{ height: `${items.length * ROW_PX}px`, position: 'relative' }}>
          {items.slice(first, last).map((item, i) => (
            <div
              key={item}
              id={`${id}-${item}`}
              class="cm-row"
              role="row"
              aria-rowindex={first + i + 2}
              aria-selected={first + i === chosen}
              style={{ top: `${(first + i) * ROW_PX}px`, ...template }}
              title={table.hint?.(item)}
              onClick={() => go(first + i)}
            >
              {mark(item) || <span />}
              {columns.map(({ key, text, isNumber }, k) => (
                <span
                  key={key}
                  role="gridcell"
                  class={`${k ? 'cm-soft' : 'cm-row-name'}${isNumber ? ' cm-number' : ''}`}
                >
                  {draw?.(key, item) ?? text(item)}
                </span>
              ))}
            </div>
          ))}
        </div>
        {!items.length && <p class="cm-empty cm-soft">{empty}</p>}
      </div>
    </div>
  );
}
