// The timeline with its buttons. Loaded when it is opened for the first time.

import { useEffect, useRef } from 'preact/hooks';
import { duration } from '../../format';
import { NONE } from '../../layout';
import { chromeTrace } from '../../trace';
import { bind } from '../graph/bind';
import { Glyph } from '../graph/icons';
import type { ViewProps } from '../graph/state';
import { TimelineCanvas } from './canvas';

/** Hand a file to the reader. */
function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function Timeline({ state, graph, options }: ViewProps) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<TimelineCanvas | null>(null);
  const brush = state.brush.value;
  useEffect(() => {
    const choose = (row: number) => state.choose(row === NONE ? null : { kind: 'task', index: row });
    const view = new TimelineCanvas(
      host.current!,
      graph,
      {
        onSelect: choose,
        onOpen: row => {
          choose(row);
          host.current?.parentElement?.querySelector<HTMLElement>('.cm-actions button')?.focus();
        },
        onBrush: range => {
          state.brush.value = range;
        },
        onAim: ({ isFollowing }) => {
          state.isFollowing.value = isFollowing;
        }
      },
      options.wheel
    );
    canvas.current = view;
    state.isFollowing.value = false;
    return bind(view, state, picked => view.select(picked?.kind === 'task' ? picked.index : NONE));
  }, []);
  useEffect(() => canvas.current?.setGraph(graph), [graph]);
  const now = () => graph.time(performance.now());
  return (
    <>
      <div ref={host} class="cm-graph cm-lanes" />
      <div class="cm-below">
        {brush ? (
          <button type="button" class="cm-range" title="Show everything again" onClick={() => (state.brush.value = null)}>
            {duration(brush[1] - brush[0])} marked: only what ran then is lit in the other views
            <Glyph name="close" />
          </button>
        ) : (
          <span class="cm-soft">Shift and drag marks a stretch of time</span>
        )}
        <span class="cm-spring" />
        <button type="button" title="For ui.perfetto.dev and chrome://tracing" onClick={() => save('cellmesh-trace.json', 'application/json', chromeTrace(graph, now()))}>
          Save trace
        </button>
        <button type="button" title="The picture as it is" onClick={() => save('cellmesh-timeline.svg', 'image/svg+xml', canvas.current?.svg() ?? '')}>
          Save SVG
        </button>
      </div>
      <div class="cm-zoom" role="toolbar" aria-label="Point of view">
        <button type="button" aria-label="Zoom out" title="Zoom out (−)" onClick={() => canvas.current?.zoom(1 / 1.5)}>
          <Glyph name="minus" />
        </button>
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => canvas.current?.zoom(1.5)}>
          <Glyph name="plus" />
        </button>
        <button type="button" aria-label="Show everything" title="Show everything (F)" onClick={() => canvas.current?.fit()}>
          <Glyph name="fit" />
        </button>
        <button
          type="button"
          aria-label="Follow the work"
          title="Follow the work (L)"
          aria-pressed={state.isFollowing.value}
          onClick={() => canvas.current?.follow(!canvas.current.isFollowing)}
        >
          <Glyph name="follow" />
        </button>
      </div>
    </>
  );
}
