// Line icons of one weight, and the state marks as SVG (the canvas draws the same shapes in `draw/marks.ts`).

import type { ComponentChildren } from 'preact';
import { State } from '../../protocol/messages';

function Icon({ children }: { children: ComponentChildren }) {
  return (
    <svg class="cm-icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      {children}
    </svg>
  );
}

const paths = {
  plus: 'M8 3.5v9M3.5 8h9',
  minus: 'M3.5 8h9',
  fit: 'M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3',
  follow: 'M2.5 8h8.5M7.5 4.5 11 8l-3.5 3.5M13.5 3.5v9',
  close: 'M4.5 4.5l7 7M11.5 4.5l-7 7',
  cell: 'M6 4 3 8l3 4M10 4l3 4-3 4',
  fetch: 'M8 2.5v7M5 7l3 3 3-3M3 13h10',
  retry: 'M12.5 8a4.5 4.5 0 1 1-1.4-3.2M12.5 2.5v3h-3',
  stop: 'M4.5 4.5h7v7h-7z',
  play: 'M5 3.5v9l7.5-4.5z',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  pin: 'M5.5 2.5h5M6.5 2.5v4l-2 3h7l-2-3v-4M8 9.5v4',
  save: 'M3 3h8l2 2v8H3zM5.5 3v3.5h4V3M5.5 13V9.5h5V13',
  refresh: 'M12.5 8a4.5 4.5 0 1 1-1.4-3.2M12.5 2.5v3h-3',
  expand: 'M9.5 3H13v3.5M13 3 9 7M6.5 13H3V9.5M3 13l4-4',
  groups: 'M2.5 3.5h5v4h-5zM8.5 8.5h5v4h-5zM5 7.5v3h3.5',
  machines: 'M2.5 2.5h4.5v11H2.5zM9 2.5h4.5v11H9zM4 5h1.5M10.5 5H12',
  tasks: 'M2.5 6.5h3v3h-3zM10.5 2.5h3v3h-3zM10.5 10.5h3v3h-3zM5.5 7.5l5-3.5M5.5 8.5l5 3.5',
  timeline: 'M2.5 4h6M5.5 8h8M3.5 12h5',
  tables: 'M2.5 3h11v10h-11zM2.5 6.5h11M2.5 9.8h11M6.5 3v10',
  memory: 'M2.5 2.5h11v11h-11zM8.5 2.5v11M8.5 8h5M11 8v5.5',
  machine: 'M1.5 9.5h3L6.5 4l3 9 2-5.5h3',
  logs: 'M3 4h10M3 7h7M3 10h9M3 13h5',
  trials: 'M2.5 3v10h11M4.5 11c1.5-5 3.5-6.500 8.500-7M4.500 11.500c2-2 4.500-3 8.500-3.200',
  learning: 'M2.5 3v10h11M4.500 11.500c4.500 0 2.500-7 9-7M4.500 8h2M11 8h2.500'
};
export type GlyphName = keyof typeof paths;

export function Glyph({ name }: { name: GlyphName }) {
  return (
    <Icon>
      <path
        d={paths[name]}
        fill="none"
        stroke="currentColor"
        stroke-width="1.4"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </Icon>
  );
}

const ring = <circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="1.6" />;
const line = (d: string, colour: string) => (
  <path d={d} fill="none" stroke={colour} stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" />
);
const inverse = 'var(--cm-inverse)';

const marks: Record<State, ComponentChildren> = {
  [State.waiting]: ring,
  [State.queued]: (
    <>
      {ring}
      <circle cx="8" cy="8" r="2.2" fill="currentColor" />
    </>
  ),
  [State.running]: (
    <>
      <circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="2" opacity="0.25" />
      <path
        class="cm-turn"
        d="M8 3a5 5 0 0 1 4.1 7.9"
        fill="none"
        stroke="currentColor"
        stroke-width="2"
        stroke-linecap="round"
      />
    </>
  ),
  [State.finished]: (
    <>
      <circle cx="8" cy="8" r="6" fill="currentColor" />
      {line('M5.5 8.2 7.4 10l3.2-3.8', inverse)}
    </>
  ),
  [State.failed]: (
    <>
      <rect x="2.4" y="2.4" width="11.2" height="11.2" rx="2.4" fill="currentColor" />
      {line('M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4', inverse)}
    </>
  ),
  [State.cancelled]: (
    <>
      {ring}
      {line('M4.7 11.3l6.6-6.6', 'currentColor')}
    </>
  ),
  [State.retrying]: (
    <>
      {line('M12.6 8a4.6 4.6 0 1 1-1.5-3.4', 'currentColor')}
      {line('M11.6 2.2v2.8H8.8', 'currentColor')}
    </>
  )
};

/** An inherited failure: an outline. */
const hollow = (
  <>
    <rect x="3" y="3" width="10" height="10" rx="2.2" fill="none" stroke="currentColor" stroke-width="1.4" />
    {line('M6.2 6.2l3.6 3.6M9.8 6.2 6.2 9.8', 'currentColor')}
  </>
);

export function Mark({ state, isHollow = false }: { state: State; isHollow?: boolean }) {
  return (
    <span class={`cm-mark cm-state-${state}`}>
      <Icon>{isHollow && state === State.failed ? hollow : marks[state]}</Icon>
    </span>
  );
}

/** A put object's mark. */
export function ObjectMark() {
  return (
    <span class="cm-mark cm-object">
      <Icon>
        <path d="M8 3l5 5-5 5-5-5z" fill="currentColor" />
      </Icon>
    </span>
  );
}

/** The picture of a graph, for empty places. */
export function Emblem() {
  return (
    <svg class="cm-emblem" viewBox="0 0 160 96" width="160" height="96" aria-hidden="true">
      <g fill="none" stroke="var(--cm-border)" stroke-width="1.5">
        <path d="M40 20c20 0 20 28 40 28M40 48h40M40 76c20 0 20-28 40-28M112 48h24" />
      </g>
      <g class="cm-emblem-boxes">
        <rect x="8" y="12" width="32" height="16" rx="5" />
        <rect x="8" y="40" width="32" height="16" rx="5" />
        <rect x="8" y="68" width="32" height="16" rx="5" />
        <rect x="80" y="40" width="32" height="16" rx="5" />
        <circle cx="144" cy="48" r="8" />
      </g>
    </svg>
  );
}
