// The graph as a list: every row reachable by key and readable aloud. Only what is in view exists in the page.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { TaskGraph } from '../../model';
import { Kind, type State } from '../../protocol';
import { rowState, rowTitle } from './describe';
import { Mark, ObjectMark } from './icons';
import type { PanelState } from './state';

const ROW_PX = 30;
const SLACK = 6;

export function List({ state, graph }: { state: PanelState; graph: TaskGraph }) {
  state.tick.value;
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 400 });
  useLayoutEffect(() => {
    const element = box.current!;
    const read = () => setScroll({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    element.addEventListener('scroll', read, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', read);
    };
  }, []);

  const filter = state.stateFilter.value;
  const brush = state.brush.value;
  const rows: number[] = [];
  for (let row = graph.n - 1; row >= 0; row--) {
    const isWanted = filter === null || (graph.state[row] === filter && graph.kind[row] !== Kind.object);
    if (isWanted && (!brush || graph.ranIn(row, brush))) {
      rows.push(row);
    }
  }
  const picked = state.selection.value;
  const chosen = picked?.kind === 'task' ? rows.indexOf(picked.index) : -1;
  const first = Math.max(0, Math.floor(scroll.top / ROW_PX) - SLACK);
  const last = Math.min(rows.length, Math.ceil((scroll.top + scroll.height) / ROW_PX) + SLACK);
  const now = graph.time(performance.now());

  const go = (position: number) => {
    const at = Math.min(rows.length - 1, Math.max(0, position));
    const row = rows[at];
    const element = box.current;
    if (row === undefined || !element) {
      return;
    }
    state.choose({ kind: 'task', index: row });
    if (at * ROW_PX < element.scrollTop) {
      element.scrollTop = at * ROW_PX;
    } else if ((at + 1) * ROW_PX > element.scrollTop + element.clientHeight) {
      element.scrollTop = (at + 1) * ROW_PX - element.clientHeight;
    }
  };
  const page = Math.max(1, Math.floor(scroll.height / ROW_PX) - 1);
  const steps: Record<string, number> = {
    ArrowDown: chosen + 1,
    ArrowUp: chosen < 0 ? 0 : chosen - 1,
    PageDown: chosen + page,
    PageUp: chosen - page,
    Home: 0,
    End: rows.length - 1
  };

  return (
    <div
      ref={box}
      class="cm-list"
      role="listbox"
      tabIndex={0}
      aria-label="Tasks, the latest first"
      aria-activedescendant={chosen >= first && chosen < last ? `cm-row-${rows[chosen]}` : undefined}
      onKeyDown={event => {
        const step = steps[event.key];
        if (step !== undefined) {
          event.preventDefault();
          event.stopPropagation();
          go(step);
        }
      }}
    >
      <div style={{ height: `${rows.length * ROW_PX}px`, position: 'relative' }}>
        {rows.slice(first, last).map((row, i) => (
          <div
            key={row}
            id={`cm-row-${row}`}
            class="cm-row"
            role="option"
            aria-selected={picked?.kind === 'task' && picked.index === row}
            aria-setsize={rows.length}
            aria-posinset={first + i + 1}
            style={{ top: `${(first + i) * ROW_PX}px` }}
            onClick={() => state.choose({ kind: 'task', index: row })}
          >
            {graph.kind[row] === Kind.object ? <ObjectMark /> : <Mark state={graph.state[row] as State} />}
            <span class="cm-row-name">{rowTitle(graph, row)}</span>
            <span class="cm-row-cell">{graph.cellLabel(row)?.label}</span>
            <span class="cm-row-state">{rowState(graph, row, now)}</span>
          </div>
        ))}
      </div>
    </div>
  );
}
