// What holds the store's memory, as boxes as large as it; and of the one that is chosen, who holds it. Loaded when it is
// opened for the first time.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { message } from '../../connection';
import { decodeStoreMap } from '../../decode';
import { functionColour } from '../../draw/timeline';
import { makeTheme } from '../../draw/theme';
import { integer, size } from '../../format';
import { Kind, type StoreMap, type StoredObject } from '../../protocol';
import { __, _n, nObjects } from '../../text';
import { treemap } from '../../treemap';
import { Glyph } from '../graph/icons';
import type { ViewProps } from '../graph/state';
import { Marked } from '../marked';
import { useScroll } from '../scroll';

/** While the view is open and the store changes it is read again, no more often than that. */
const READ_MS = 5000;
const LABEL_PX = { width: 46, height: 18 };

export function Memory({ state, graph }: ViewProps) {
  state.tick.value;
  const connection = state.connection.value;
  const live = connection?.graph ?? graph;
  const [map, setMap] = useState<StoreMap | null>(null);
  const [problem, setProblem] = useState('');
  const [chosen, setChosen] = useState<StoredObject | null>(null);
  const reading = useRef({ at: Number.NEGATIVE_INFINITY, isUnderWay: false, store: '' });
  const isRecording = connection?.transport.isRecording === true;
  const read = async () => {
    const now = reading.current;
    if (!connection || isRecording || now.isUnderWay) {
      return;
    }
    Object.assign(now, { isUnderWay: true, at: performance.now(), store: storeKey() });
    try {
      setMap(decodeStoreMap(await connection.ask({ op: 'memory' })));
      setProblem('');
      setChosen(null);
    } catch (error) {
      setProblem(message(error));
    }
    now.isUnderWay = false;
  };
  const storeKey = () => `${live.session} ${live.store.used} ${live.store.objects}`;
  const isOld = reading.current.store !== storeKey();
  useEffect(() => {
    if (!isOld) {
      return undefined;
    }
    const timer = setTimeout(() => void read(), Math.max(0, reading.current.at + READ_MS - performance.now()));
    return () => clearTimeout(timer);
  }, [connection, isOld]);

  const frame = useRef<HTMLDivElement>(null);
  const { width, height } = useScroll(frame);
  const objects = useMemo(() => map?.objects.filter(each => each.size > 0) ?? [], [map]);
  const boxes = useMemo(() => treemap(objects.map(each => each.size), { x: 0, y: 0, width, height }), [objects, width, height]);
  const shown = objects.reduce((sum, each) => sum + each.size, 0);
  const colour = useColours(frame, state.look.value);
  const brush = state.brush.value;
  const isDim = ({ row }: StoredObject) => brush !== null && !(row >= 0 && row < live.n && live.ranIn(row, brush));
  const choose = (each: StoredObject) => {
    setChosen(each);
    state.choose(each.row >= 0 && each.row < live.n ? { kind: 'task', index: each.row } : null);
  };
  return (
    <div class="cm-tables cm-memory">
      <div class="cm-table-tools">
        {map && (
          <>
            <b>{__('%1 of %2', size(map.used), size(map.capacity))}</b>
            <span class="cm-soft">
              {[nObjects(map.nObjects), __('at most %1 so far', size(map.peak)), map.nOnDisk > 0 && __('%1 on disk in %2', size(map.disk), nObjects(map.nOnDisk))].filter(Boolean).join('  ·  ')}
            </span>
          </>
        )}
        <span class="cm-spring" />
        <Marked state={state} />
        {!isRecording && (
          <button type="button" class="cm-quiet" aria-label={__('Look again')} title={__('Look again')} onClick={() => void read()}>
            <Glyph name="refresh" />
          </button>
        )}
      </div>
      {(problem || isRecording) && <p class="cm-gap cm-soft">{isRecording ? __('A recording has no store: what was in it is gone.') : problem}</p>}
      <div ref={frame} class="cm-map" role="group" aria-label={__('Values in the store, the largest first')}>
        {boxes.map((box, i) => {
          const each = objects[i]!;
          const fn = each.row >= 0 && each.row < live.n && live.kind[each.row] !== Kind.object ? live.fn[each.row]! : -1;
          return (
            <button
              type="button"
              key={i}
              class={`cm-value-box${each.place === 'disk' ? ' cm-on-disk' : ''}${each === chosen ? ' cm-chosen' : ''}${isDim(each) ? ' cm-dim' : ''}`}
              style={{ left: `${box.x}px`, top: `${box.y}px`, width: `${Math.max(1, box.width - 2)}px`, height: `${Math.max(1, box.height - 2)}px`, '--cm-hue': colour(fn) }}
              title={`${titleOf(each)}\n${holdersOf(each).join('\n')}`}
              aria-label={`${titleOf(each)}, ${holdersOf(each).join(', ')}`}
              onClick={() => choose(each)}
            >
              {box.width > LABEL_PX.width && box.height > LABEL_PX.height && (
                <>
                  <span>{each.variables[0] ?? each.madeBy}</span>
                  {box.height > 2 * LABEL_PX.height && <small>{size(each.size)}</small>}
                </>
              )}
            </button>
          );
        })}
        {map && !objects.length && <p class="cm-empty cm-soft">{__('The store is empty.')}</p>}
      </div>
      <div class="cm-held">
        {chosen ? (
          <>
            <b>{titleOf(chosen)}</b>
            <ul>
              {holdersOf(chosen).map(words => (
                <li key={words}>{words}</li>
              ))}
            </ul>
          </>
        ) : (
          <span class="cm-soft">
            {map && map.nObjects > objects.length
              ? __('The %1 largest are shown: %2 of %3. Choose one to see who holds it.', integer(objects.length), size(shown), size(map.used + map.disk))
              : __('Choose a value to see who holds it.')}
          </span>
        )}
      </div>
    </div>
  );
}

function titleOf({ madeBy, size: bytes, place }: StoredObject): string {
  return [madeBy || __('unknown'), size(bytes), place === 'disk' && __('on disk')].filter(Boolean).join('  ·  ');
}

/** Who holds a value, a line for each. */
function holdersOf({ variables, holders, users }: StoredObject): string[] {
  const lines = [
    ...variables.map(name => __('variable %1', name)),
    ...holders,
    ...(users ? [_n('used by %2 task or value', 'used by %2 tasks and values', users)] : [])
  ];
  return lines.length ? lines : [__('Nobody holds it: its memory is about to be given back.')];
}

/** The functions' colours, as in the timeline; puts are grey. */
function useColours(frame: { current: HTMLElement | null }, look: number): (fn: number) => string {
  const [theme, setTheme] = useState<ReturnType<typeof makeTheme> | null>(null);
  useEffect(() => {
    const style = getComputedStyle(frame.current!);
    setTheme(makeTheme(name => style.getPropertyValue(name), style.getPropertyValue('--cm-is-dark').trim() === '1'));
  }, [look]);
  return fn => (theme ? (fn < 0 ? theme.textSoft : functionColour(theme, fn)) : 'transparent');
}
