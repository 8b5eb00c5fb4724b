// Decides whether a row of choices has no room for its names and shows icons instead. The names are measured, because
// their length depends on the language and on the choices.

import type { RefObject } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** The width that the row must leave to its neighbours; less in narrow panels. */
const BESIDE_PX = 154;
const [NARROW_PX, BESIDE_NARROW_PX] = [400, 90];

/** Whether a panel of this width is too narrow for names of this width. */
export function isTooNarrow(width: number, needed: number): boolean {
  return width > 0 && width - (width > NARROW_PX ? BESIDE_PX : BESIDE_NARROW_PX) < needed;
}

/** `names` are those in the row, `place` is its container. A row without icons keeps its names. */
export function useCompact(row: RefObject<HTMLElement | null>, names: string, hasSigns: boolean): boolean {
  const [isCompact, setCompact] = useState(false);
  const measured = useRef({ names: '', needed: 0 });
  useLayoutEffect(() => {
    const place = row.current?.parentElement;
    if (!hasSigns || !place) {
      return undefined;
    }
    const read = () => setCompact(isTooNarrow(place.clientWidth, measured.current.needed));
    if (measured.current.names !== names) {
      const element = row.current!;
      element.classList.remove('cm-compact');
      measured.current = { names, needed: element.scrollWidth + 2 };
    }
    read();
    const observer = new ResizeObserver(read);
    observer.observe(place);
    return () => observer.disconnect();
  }, [names, hasSigns]);
  return isCompact;
}
