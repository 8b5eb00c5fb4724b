import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { State } from '../../protocol/messages';
import { STATES_DARK, STATES_LIGHT } from '../../theme/theme';

const SHEET = readFileSync(join(__dirname, '../../../style/panel.css'), 'utf8');

/** The colours of the style sheet's first block, which is the light one, or of the one that makes the panel dark. */
function colours(isDark: boolean): Map<string, string> {
  const [light = '', dark = ''] = SHEET.split('--cm-is-dark: 1;');
  const block = isDark ? dark.slice(0, dark.indexOf('}')) : light.slice(0, light.indexOf('}'));
  return new Map([...block.matchAll(/--cm-([a-z-]+): (#[0-9a-f]{6});/g)].map(([, name = '', hex = '']) => [name, hex]));
}

describe('the colours of states', () => {
  it.each([false, true])('are the same on the canvas and in the style sheet (dark: %s)', isDark => {
    const sheet = colours(isDark);
    const canvas = isDark ? STATES_DARK : STATES_LIGHT;
    for (const [name, state] of Object.entries(State)) {
      expect([name, sheet.get(name)]).toEqual([name, canvas[state]?.solid]);
    }
  });
});
