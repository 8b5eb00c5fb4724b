// history/: the history bar; never the past itself, which is `model/`.

// The history bar: a slider over the session's past with a curve of activity, playback, and the way back to the
// present.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { stopwatch } from '../../i18n/format';
import { __ } from '../../i18n/translate';
import type { TaskGraph } from '../../model/graph';
import { activity, momentAt, placeOf, type Stretch, stretchesOf } from '../../model/stretches';
import { Glyph } from '../shared/icons';
import { NameForm } from '../shared/name_form';
import type { PanelState } from '../shared/state';
import { watch } from '../shared/watch';

const N_STEPS = 160;
const HEIGHT = 22;
/** The least and the most seconds in which a whole session is played. */
const PLAY_S = [6, 24] as const;
/** In large sessions the curve is drawn again at most this often. */
const LARGE = 20_000;
const [SMALL_MS, LARGE_MS] = [250, 1500];
const KEY_STEP = 0.01;

export function HistoryBar({ state, graph }: { state: PanelState; graph: TaskGraph }) {
  watch(state.tick);
  const moment = state.moment.value;
  const [isPlaying, setPlaying] = useState(false);
  const isNaming = state.isNaming.value;
  const setNaming = (isWanted: boolean) => {
    state.isNaming.value = isWanted;
  };
  const epoch = Math.floor(performance.now() / (graph.n > LARGE ? LARGE_MS : SMALL_MS));
  const now = graph.time(performance.now());
  const isBusy = graph.counts.running + graph.counts.queued + graph.counts.waiting > 0;
  const { stretches, area } = useMemo(() => {
    const found = stretchesOf(graph, now);
    return { stretches: found, area: areaOf(activity(graph, found, now, N_STEPS)) };
  }, [graph, graph.epoch, isBusy || graph.version < 2 ? epoch : graph.version]);
  const place = moment === null ? 1 : placeOf(stretches, moment);
  const transport = state.connection.value?.transport;
  // Only the last of the places that a hand passes between two frames is shown.
  const wish = useRef({ to: 0, request: 0 });
  const go = (to: number) => {
    wish.current.to = to;
    wish.current.request ||= requestAnimationFrame(() => {
      wish.current.request = 0;
      const { to: last } = wish.current;
      state.goTo(last >= 1 ? null : momentAt(stretches, Math.max(0, last)));
    });
  };
  usePlayer(isPlaying, stretches, state, () => setPlaying(false));
  if (!stretches.length) {
    return null;
  }
  const shown = stopwatch(moment ?? Math.min(now, stretches[stretches.length - 1]!.to));
  return (
    <div class="cm-history">
      <button
        type="button"
        class="cm-quiet"
        aria-label={isPlaying ? __('Pause') : __('Play the session from here')}
        title={isPlaying ? __('Pause') : __('Play the session from here')}
        onClick={() => {
          if (!isPlaying && place >= 1) {
            state.goTo(stretches[0]!.from);
          }
          setPlaying(!isPlaying);
        }}
      >
        <Glyph name={isPlaying ? 'pause' : 'play'} />
      </button>
      <Track
        place={place}
        area={area}
        stretches={stretches}
        label={shown}
        onMove={to => {
          setPlaying(false);
          go(to);
        }}
      />
      {moment !== null && (
        <span class="cm-at" title={__('Time since the session began, as in the timeline')}>
          {__('at %1', shown)}
        </span>
      )}
      <button
        type="button"
        class="cm-now"
        aria-pressed={moment === null}
        title={transport?.isRecording ? __('Show the end of the recording') : __('Show the session as it is now')}
        onClick={() => {
          setPlaying(false);
          state.goTo(null);
        }}
      >
        {transport?.isRecording ? __('End') : __('Now')}
      </button>
      {!transport?.isRecording && (
        <button
          type="button"
          class="cm-quiet"
          aria-expanded={isNaming}
          aria-label={__('Save the session …')}
          title={__('Save the session …')}
          onClick={() => setNaming(!isNaming)}
        >
          <Glyph name="save" />
        </button>
      )}
      {isNaming && (
        <SaveForm state={state} suggestion={fileName(transport?.label ?? '')} onDone={() => setNaming(false)} />
      )}
      <Saved state={state} />
    </div>
  );
}

/** "tour.ipynb" -> "tour.cellmesh". */
export function fileName(label: string): string {
  const stem = label
    .replace(/\.[^.]*$/, '')
    .replace(/[\\/:*?"<>|\p{Cc}]+/gu, '-')
    .trim();
  return `${stem || 'session'}.cellmesh`;
}

/** The curve of activity in a box of N_STEPS by HEIGHT; the square root keeps little work visible beside much. */
export function areaOf(steps: Float64Array): string {
  const top = Math.max(...steps, 1e-9);
  const points = Array.from(steps, (value, i) => {
    const y = (HEIGHT - Math.sqrt(value / top) * (HEIGHT - 3)).toFixed(1);
    return `${i},${y} ${i + 1},${y}`;
  });
  return `M0,${HEIGHT} L${points.join(' ')} L${steps.length},${HEIGHT} Z`;
}

/** Advances with the display's frames until the end. */
function usePlayer(isPlaying: boolean, stretches: Stretch[], state: PanelState, onEnd: () => void): void {
  const latest = useRef(stretches);
  latest.current = stretches;
  useEffect(() => {
    if (!isPlaying) {
      return undefined;
    }
    let before = performance.now();
    let request = 0;
    let place = placeOf(latest.current, state.moment.peek() ?? 0);
    const step = () => {
      const clockMs = performance.now();
      const all = latest.current;
      const seconds = all.reduce((sum, { from, to }) => sum + to - from, 0);
      const whole = Math.min(PLAY_S[1], Math.max(PLAY_S[0], seconds));
      place += (clockMs - before) / 1000 / whole;
      before = clockMs;
      if (place >= 1) {
        state.goTo(null);
        onEnd();
        return;
      }
      state.goTo(momentAt(all, place));
      request = requestAnimationFrame(step);
    };
    request = requestAnimationFrame(step);
    return () => cancelAnimationFrame(request);
  }, [isPlaying]);
}

interface TrackProps {
  place: number;
  area: string;
  stretches: Stretch[];
  label: string;
  onMove: (place: number) => void;
}

function Track({ place, area, stretches, label, onMove }: TrackProps) {
  const track = useRef<HTMLDivElement>(null);
  const at = (event: PointerEvent) => {
    const { left, width } = track.current!.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / width));
  };
  const steps: Record<string, number> = {
    ArrowLeft: place - KEY_STEP,
    ArrowDown: place - KEY_STEP,
    ArrowRight: place + KEY_STEP,
    ArrowUp: place + KEY_STEP,
    PageDown: place - 10 * KEY_STEP,
    PageUp: place + 10 * KEY_STEP,
    Home: 0,
    End: 1
  };
  const percent = `${(100 * place).toFixed(2)}%`;
  return (
    <div
      ref={track}
      class="cm-track"
      role="slider"
      tabIndex={0}
      aria-label={__('Moment of the session')}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(100 * place)}
      aria-valuetext={label}
      onPointerDown={event => {
        if (event.button === 0) {
          track.current!.setPointerCapture(event.pointerId);
          onMove(at(event));
        }
      }}
      onPointerMove={event => {
        if (track.current!.hasPointerCapture(event.pointerId)) {
          onMove(at(event));
        }
      }}
      onKeyDown={event => {
        const to = steps[event.key];
        if (to !== undefined) {
          event.preventDefault();
          event.stopPropagation();
          onMove(to);
        }
      }}
    >
      <svg viewBox={`0 0 ${N_STEPS} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {[0, 1].map(part => (
          <path
            key={part}
            d={area}
            class={part ? 'cm-past' : 'cm-future'}
            style={part ? `clip-path: inset(0 ${(100 - 100 * place).toFixed(2)}% 0 0)` : ''}
          />
        ))}
        {stretches.slice(1).map(({ start }, i) => (
          <rect
            key={start}
            x={stretches[i]!.end * N_STEPS}
            y={0}
            width={Math.max(0.3, (start - stretches[i]!.end) * N_STEPS)}
            height={HEIGHT}
            class="cm-notch"
          />
        ))}
      </svg>
      <i style={{ left: percent }} />
    </div>
  );
}

const FORMATS = /\.(cellmesh|html?)$/;

function SaveForm({ state, suggestion, onDone }: { state: PanelState; suggestion: string; onDone: () => void }) {
  return (
    <NameForm
      label={__('Save as')}
      hint={__('.cellmesh opens in JupyterLab, .html in any browser')}
      suggestion={suggestion}
      selected={suggestion.lastIndexOf('.')}
      pattern={/[^/]\.(cellmesh|html?)$/}
      verb={__('Save')}
      onName={name => void state.save(name)}
      onDone={onDone}
    >
      {(name, setName) => {
        const other = name.endsWith('.cellmesh') ? '.html' : '.cellmesh';
        return (
          <button
            type="button"
            class="cm-quiet cm-kind"
            title={__('A page for any browser, without JupyterLab')}
            onClick={() => setName(name.replace(FORMATS, '') + other)}
          >
            → {other}
          </button>
        );
      }}
    </NameForm>
  );
}

function Saved({ state }: { state: PanelState }) {
  const saved = state.saved.value;
  const open = state.connection.value?.transport.open?.bind(state.connection.value.transport);
  return (
    saved && (
      <div class="cm-saved" role="status">
        <span>{saved.text}</span>
        {saved.isDone && open && (
          <button type="button" class="cm-quiet" onClick={() => open(saved.path)}>
            {__('Open')}
          </button>
        )}
        <button type="button" class="cm-quiet" aria-label={__('Close')} onClick={() => (state.saved.value = null)}>
          <Glyph name="close" />
        </button>
      </div>
    )
  );
}
