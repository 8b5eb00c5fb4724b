// The graph's view: the component that owns the canvas.

import { useEffect, useRef } from 'preact/hooks';
import { bind } from '../shared/bind';
import type { ViewProps } from '../shared/state';
import { GraphCanvas } from './canvas';

export function Graph({ state, graph, options }: ViewProps) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<GraphCanvas | null>(null);
  useEffect(() => {
    const view = new GraphCanvas(
      host.current!,
      graph,
      {
        onSelect: picked => state.choose(picked),
        onOpen: picked => {
          state.choose(picked);
          if (picked.kind === 'group') {
            view.expand(picked.index);
          } else {
            host.current?.closest('.cm-stage')?.querySelector<HTMLElement>('.cm-actions button')?.focus();
          }
        },
        onView: ({ isFollowing, showsGroups }) => {
          state.isFollowing.value = isFollowing;
          state.showsGroups.value = showsGroups;
        }
      },
      options
    );
    view.setShow(state.show.peek());
    canvas.current = view;
    state.canvas.value = view;
    const unbind = bind(view, state, picked => view.select(picked));
    return () => {
      state.canvas.value = null;
      unbind();
    };
  }, []);
  useEffect(() => canvas.current?.setGraph(graph), [graph]);
  return <div ref={host} class="cm-graph" />;
}
