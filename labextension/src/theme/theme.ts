// theme/: colours and fonts; never what is drawn with them.

// Colours and fonts. State colours are fixed, so that a state looks the same in every theme and colour-blind readers
// can tell states apart (blue, green-blue, vermilion and amber after Okabe and Ito, adjusted for contrast). The
// style sheet (style/panel.css) has the same ones for HTML, which a test compares. Everything else follows JupyterLab's
// variables through the style sheet.

import { N_STATES, State } from '../protocol/messages';

export interface StateColours {
  /** Marks, bars, small boxes. */
  solid: string;
  /** The tint of a large box. */
  tint: string;
}

export interface Theme {
  isDark: boolean;
  background: string;
  surface: string;
  border: string;
  text: string;
  textSoft: string;
  /** Text on a solid state colour. */
  inverse: string;
  edge: string;
  edgeDone: string;
  accent: string;
  grid: string;
  font: string;
  states: readonly StateColours[];
  /** For finished boxes in large numbers, so that active ones stand out. */
  finishedCalm: string;
  /** For actors: hues that no state uses. */
  actors: readonly string[];
  /** For functions, which cover large areas: quieter than those for actors. */
  functions: readonly string[];
  /** For machines, this one first. */
  nodes: readonly string[];
  /** For transfers of values: to this machine, and away from it. */
  transfers: readonly [string, string];
  /** For trials, from the worst to the best. */
  worst: string;
  best: string;
}

const LIGHT: Record<keyof typeof State, StateColours> = {
  waiting: { solid: '#b4bac6', tint: '#f7f8fa' },
  queued: { solid: '#7d889c', tint: '#f1f3f7' },
  running: { solid: '#2573e0', tint: '#e8f1fe' },
  finished: { solid: '#12937c', tint: '#f2faf8' },
  failed: { solid: '#d2411e', tint: '#fdeeea' },
  cancelled: { solid: '#a0937f', tint: '#f6f3ee' },
  retrying: { solid: '#dd9a00', tint: '#fdf5e0' }
};

const DARK: Record<keyof typeof State, StateColours> = {
  waiting: { solid: '#585f6e', tint: '#24272d' },
  queued: { solid: '#8c97ab', tint: '#2a2e36' },
  running: { solid: '#5b9dff', tint: '#1c2d49' },
  finished: { solid: '#35b89b', tint: '#1b2e2b' },
  failed: { solid: '#ff7752', tint: '#42241d' },
  cancelled: { solid: '#9a8d78', tint: '#2e2a24' },
  retrying: { solid: '#f2b632', tint: '#3b2f15' }
};

const ACTORS_LIGHT = ['#8250c4', '#b0468f', '#4f62c9', '#a0602c', '#6a7f1f', '#2f7f96'];
const FUNCTIONS_LIGHT = ['#2f8f7d', '#5577c4', '#9a6fb0', '#b08236', '#5f8f3c', '#b8607a', '#3f8ea8', '#8a7a5c'];
const FUNCTIONS_DARK = ['#4fb8a2', '#7f9eea', '#bd93d4', '#d3a65c', '#8ebd68', '#dc8aa2', '#66b4cf', '#b0a080'];
const NODES_LIGHT = ['#8a93a3', '#3b6fd4', '#c46a1b', '#8a4fc0', '#1f8f84', '#b23a6b', '#6a7f1f'];
const NODES_DARK = ['#7d8798', '#6b9cf5', '#e39a55', '#b98af0', '#4fc0b4', '#e57fa8', '#adc34e'];
const ACTORS_DARK = ['#b48cf0', '#e07fbd', '#8c9cf5', '#d69a68', '#adc34e', '#6dbdd6'];

function byState(colours: Record<keyof typeof State, StateColours>): readonly StateColours[] {
  const list = new Array<StateColours>(N_STATES);
  for (const [name, state] of Object.entries(State)) {
    list[state] = colours[name as keyof typeof State];
  }
  return list;
}

export const STATES_LIGHT = byState(LIGHT);
export const STATES_DARK = byState(DARK);

/** `#rrggbb` as a little-endian RGBA word, as ImageData holds it. */
export function rgba(hex: string): number {
  const value = Number.parseInt(hex.slice(1), 16);
  const [r, g, b] = [value >> 16, (value >> 8) & 255, value & 255];
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** Share `t` of the way from one `#rrggbb` to another. */
export function mix(from: string, to: string, t: number): string {
  const [a, b] = [Number.parseInt(from.slice(1), 16), Number.parseInt(to.slice(1), 16)];
  const channel = (shift: number) => Math.round(((a >> shift) & 255) * (1 - t) + ((b >> shift) & 255) * t);
  return `#${((channel(16) << 16) | (channel(8) << 8) | channel(0)).toString(16).padStart(6, '0')}`;
}

/** A theme from the custom properties that the style sheet sets (`--cm-*`), as `read` returns them. */
export function makeTheme(read: (name: string) => string, isDark: boolean): Theme {
  const pick = (name: string, light: string, dark: string) => read(`--cm-${name}`).trim() || (isDark ? dark : light);
  return {
    isDark,
    background: pick('background', '#ffffff', '#16181c'),
    surface: pick('surface', '#ffffff', '#1f2227'),
    border: pick('border', '#dde1e8', '#3a3f48'),
    text: pick('text', '#1d2129', '#e8eaee'),
    textSoft: pick('text-soft', '#626b7a', '#9aa3b2'),
    inverse: isDark ? '#101216' : '#ffffff',
    edge: pick('edge', '#b9c0cc', '#58606e'),
    edgeDone: pick('edge-done', '#9ed3c7', '#2f6b5f'),
    accent: pick('accent', '#2573e0', '#5b9dff'),
    grid: isDark ? '#24272d' : '#eceef2',
    font: pick('font', 'system-ui, sans-serif', 'system-ui, sans-serif'),
    states: isDark ? STATES_DARK : STATES_LIGHT,
    finishedCalm: isDark ? '#2a8f79' : '#4fb3a0',
    actors: isDark ? ACTORS_DARK : ACTORS_LIGHT,
    functions: isDark ? FUNCTIONS_DARK : FUNCTIONS_LIGHT,
    nodes: isDark ? NODES_DARK : NODES_LIGHT,
    worst: isDark ? '#4a5160' : '#ccd1da',
    best: isDark ? '#5b9dff' : '#2573e0',
    transfers: isDark ? ['#9aa8c0', '#e0a94a'] : ['#56627a', '#b7791f']
  };
}

/** A machine's hue. */
export function nodeColour(theme: Theme, node: number): string {
  return theme.nodes[node ? 1 + ((node - 1) % (theme.nodes.length - 1)) : 0]!;
}

/** An actor's hue. */
export function actorColour(theme: Theme, actor: number): string {
  return theme.actors[actor % theme.actors.length]!;
}
