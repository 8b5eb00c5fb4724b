// A canvas beside the panel's state: it shows what is chosen there.

import { effect, untracked } from '@preact/signals';
import type { CanvasView } from '../canvas';
import type { Picked } from './canvas';
import type { PanelState } from './state';

/** Keep a canvas up to date until the returned function is called, which also disposes of it. */
export function bind(view: CanvasView, state: PanelState, select: (picked: Picked | null) => void): () => void {
  state.onChange = () => view.refresh();
  const stops = [
    effect(() => view.filter(state.stateFilter.value)),
    effect(() => view.mark(state.brush.value)),
    effect(() => {
      state.look.value;
      view.readTheme();
    }),
    effect(() => {
      const picked = state.selection.value;
      untracked(() => select(picked));
    })
  ];
  return () => {
    stops.forEach(stop => stop());
    state.onChange = null;
    view.dispose();
  };
}
