// memory/: the view of the store's values; never another view.

// The memory view: the store's values as boxes of their size, and the holders of the chosen one. Loaded when first
// opened.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { message } from '../../connection/connection';
import { functionColour } from '../../draw/timeline';
import { integer, size } from '../../i18n/format';
import { __, _n, nObjects } from '../../i18n/translate';
import { treemap } from '../../layout/treemap';
import { shownOf } from '../../model/views/stored';
import { Kind, type MemoryReply, type ObjectFacts } from '../../protocol/messages';
import { decodeMemoryReply } from '../../protocol/validators';
import { makeTheme } from '../../theme/theme';
import { Glyph } from '../shared/icons';
import { Marked } from '../shared/marked';
import { useScroll } from '../shared/scroll';
import type { ViewProps } from '../shared/state';
import { watch } from '../shared/watch';

/** While the view is open and the store changes, the store is read again at most this often. */
const READ_MS = 5000;
const LABEL_PX = { width: 46, height: 18 };

export function Memory({ state, graph }: ViewProps) {
  watch(state.tick);
  const connection = state.connection.value;
  const live = connection?.graph ?? graph;
  const [map, setMap] = useState<MemoryReply | null>(null);
  const [problem, setProblem] = useState('');
  const [chosen, setChosen] = useState<ObjectFacts | null>(null);
  const reading = useRef({ at: Number.NEGATIVE_INFINITY, isUnderWay: false, store: '' });
  const isRecording = connection?.transport.isRecording === true;
  const read = async () => {
    const now = reading.current;
    if (!connection || isRecording || now.isUnderWay) {
      return;
    }
    Object.assign(now, { isUnderWay: true, at: performance.now(), store: storeKey() });
    try {
      setMap(decodeMemoryReply(await connection.ask({ op: 'memory' })));
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
  const shown = useMemo(() => map && shownOf(map), [map]);
  const objects = shown?.objects ?? [];
  const boxes = useMemo(
    () =>
      treemap(
        objects.map(each => each.size),
        { x: 0, y: 0, width, height }
      ),
    [objects, width, height]
  );
  const colour = useColours(frame, state.look.value);
  const brush = state.brush.value;
  const isDim = ({ row }: ObjectFacts) => brush !== null && !(row >= 0 && row < live.n && live.ranIn(row, brush));
  const classesOf = (each: ObjectFacts) =>
    ['cm-value-box', each.place === 'disk' && 'cm-on-disk', each === chosen && 'cm-chosen', isDim(each) && 'cm-dim']
      .filter(Boolean)
      .join(' ');
  const choose = (each: ObjectFacts) => {
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
              {[
                nObjects(map.n_objects),
                __('at most %1 so far', size(map.peak)),
                map.n_on_disk > 0 && __('%1 on disk in %2', size(map.disk), nObjects(map.n_on_disk))
              ]
                .filter(Boolean)
                .join('  ·  ')}
            </span>
          </>
        )}
        <span class="cm-spring" />
        <Marked state={state} />
        {!isRecording && (
          <button
            type="button"
            class="cm-quiet"
            aria-label={__('Look again')}
            title={__('Look again')}
            onClick={() => void read()}
          >
            <Glyph name="refresh" />
          </button>
        )}
      </div>
      {(problem || isRecording) && (
        <p class="cm-gap cm-soft">{isRecording ? __('A recording has no store: what was in it is gone.') : problem}</p>
      )}
      <div ref={frame} class="cm-map" role="group" aria-label={__('Values in the store, the largest first')}>
        {boxes.map((box, i) => {
          const each = objects[i]!;
          const fn =
            each.row >= 0 && each.row < live.n && live.kind[each.row] !== Kind.object ? live.fn[each.row]! : -1;
          return (
            <button
              type="button"
              key={i}
              class={classesOf(each)}
              style={{
                left: `${box.x}px`,
                top: `${box.y}px`,
                width: `${Math.max(1, box.width - 2)}px`,
                height: `${Math.max(1, box.height - 2)}px`,
                '--cm-hue': colour(fn)
              }}
              title={`${titleOf(each)}\n${holdersOf(each).join('\n')}`}
              aria-label={`${titleOf(each)}, ${holdersOf(each).join(', ')}`}
              onClick={() => choose(each)}
            >
              {box.width > LABEL_PX.width && box.height > LABEL_PX.height && (
                <>
                  <span>{each.variables[0] ?? each.made_by}</span>
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
            {shown?.isCut
              ? __(
                  'The %1 largest are shown: %2 of %3. Choose one to see who holds it.',
                  integer(objects.length),
                  size(shown.bytes),
                  size(shown.ofBytes)
                )
              : objects.length > 0 && __('Choose a value to see who holds it.')}
            {shown &&
              shown.nSmall > 0 &&
              ` ${_n(
                '%2 value is so small that it takes no room here.',
                '%2 values are so small that they take no room here.',
                shown.nSmall
              )}`}
          </span>
        )}
      </div>
    </div>
  );
}

function titleOf({ made_by, size: bytes, place }: ObjectFacts): string {
  return [made_by || __('unknown'), size(bytes), place === 'disk' && __('on disk'), place === 'shared' && __('shared')]
    .filter(Boolean)
    .join('  ·  ');
}

/** The holders of a value, a line for each. */
function holdersOf({ variables, holders, users }: ObjectFacts): string[] {
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
