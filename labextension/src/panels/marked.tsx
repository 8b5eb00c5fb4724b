// The stretch of time that was marked in the timeline, wherever it decides what is shown; a click takes it away.

import { duration } from '../format';
import { __ } from '../text';
import { Glyph } from './graph/icons';
import type { PanelState } from './graph/state';

export function Marked({ state, words = shown => __('%1 marked', shown) }: { state: PanelState; words?: (shown: string) => string }) {
  const brush = state.brush.value;
  return (
    brush && (
      <button type="button" class="cm-range" title={__('Show everything again')} onClick={() => (state.brush.value = null)}>
        {words(duration(brush[1] - brush[0]))}
        <Glyph name="close" />
      </button>
    )
  );
}
