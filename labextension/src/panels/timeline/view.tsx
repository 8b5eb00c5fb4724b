// The timeline with its buttons. Loaded when first opened.

import { useEffect, useRef } from 'preact/hooks';
import { __ } from '../../i18n/translate';
import { NONE } from '../../model/rows';
import { chromeTrace } from '../../model/views/chrome_trace';
import { bind } from '../shared/bind';
import { Glyph } from '../shared/icons';
import { Marked } from '../shared/marked';
import type { ViewProps } from '../shared/state';
import { TimelineCanvas } from './canvas';

/** Download a file. */
function save(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
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
          host.current?.closest('.cm-stage')?.querySelector<HTMLElement>('.cm-actions button')?.focus();
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
          <Marked state={state} words={shown => __('%1 marked: only what ran then is lit in the other views', shown)} />
        ) : (
          <span class="cm-soft">{__('Shift and drag marks a stretch of time')}</span>
        )}
        <span class="cm-soft cm-key">
          <i class="cm-key-loading" /> {__('loads its arguments')}
          <i /> {__('runs')}
          {graph.collectives.size > 0 && (
            <>
              <i class="cm-key-collective" /> {__('in a collective')}
              <i class="cm-key-slowest" /> {__('the slowest rank')}
            </>
          )}
        </span>
        <span class="cm-spring" />
        <button
          type="button"
          title={__('For ui.perfetto.dev and chrome://tracing')}
          onClick={() =>
            save('cellmesh-trace.json', new Blob([chromeTrace(graph, now())], { type: 'application/json' }))
          }
        >
          {__('Save trace')}
        </button>
        <button
          type="button"
          title={__('The picture as it is')}
          onClick={() => save('cellmesh-timeline.svg', new Blob([canvas.current!.svg()], { type: 'image/svg+xml' }))}
        >
          {__('Save SVG')}
        </button>
        <button
          type="button"
          title={__('The picture as it is')}
          onClick={() => void canvas.current!.png().then(content => save('cellmesh-timeline.png', content))}
        >
          {__('Save PNG')}
        </button>
      </div>
      <div class="cm-zoom" role="toolbar" aria-label={__('Point of view')}>
        <button
          type="button"
          aria-label={__('Zoom out')}
          title={__('Zoom out (−)')}
          onClick={() => canvas.current?.zoom(1 / 1.5)}
        >
          <Glyph name="minus" />
        </button>
        <button
          type="button"
          aria-label={__('Zoom in')}
          title={__('Zoom in (+)')}
          onClick={() => canvas.current?.zoom(1.5)}
        >
          <Glyph name="plus" />
        </button>
        <button
          type="button"
          aria-label={__('Show everything')}
          title={__('Show everything (F)')}
          onClick={() => canvas.current?.fit()}
        >
          <Glyph name="fit" />
        </button>
        <button
          type="button"
          aria-label={__('Follow the work')}
          title={__('Follow the work (L)')}
          aria-pressed={state.isFollowing.value}
          onClick={() => canvas.current?.follow(!canvas.current.isFollowing)}
        >
          <Glyph name="follow" />
        </button>
      </div>
    </>
  );
}
