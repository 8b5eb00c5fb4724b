// A box's scroll position and size, for lists that render only the part in view.

import type { RefObject } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';

export interface Scroll {
  top: number;
  height: number;
  width: number;
}

export function useScroll(box: RefObject<HTMLElement | null>): Scroll {
  const [scroll, setScroll] = useState<Scroll>({ top: 0, height: 400, width: 500 });
  useLayoutEffect(() => {
    const element = box.current!;
    const read = () => setScroll({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    element.addEventListener('scroll', read, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', read);
    };
  }, []);
  return scroll;
}
