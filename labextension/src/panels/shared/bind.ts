// shared/: what several views need; never a view.

// Binds a canvas to the panel's state, so that it shows what is chosen there.

import { effect, untracked } from '@preact/signals';
import type { CanvasView } from './canvas';
import type { Picked } from './picture';
import type { PanelState } from './state';
import { watch } from './watch';

/** Keep a canvas up to date until the returned function is called, which also disposes of it. */
export function bind(view: CanvasView, state: PanelState, select: (picked: Picked | null) => void): () => void {
  state.onChange = () => view.refresh();
  const stops = [
    effect(() => view.filter(state.stateFilter.value)),
    effect(() => view.mark(state.brush.value)),
    effect(() => {
      watch(state.look);
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
