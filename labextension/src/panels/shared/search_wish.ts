// Focuses the search field of a view when a command asks for it.

import type { RefObject } from 'preact';
import { useEffect } from 'preact/hooks';
import type { PanelState } from './state';

export function useSearchWish(state: PanelState, field: RefObject<HTMLInputElement | null>): void {
  const isWanted = state.wantsSearch.value;
  useEffect(() => {
    if (isWanted && field.current) {
      state.wantsSearch.value = false;
      field.current.focus();
      field.current.select();
    }
  }, [isWanted]);
}
