// Shows the stretch of time that is marked in the timeline, in views that it filters; a click removes the mark.

import { duration } from '../../i18n/format';
import { __ } from '../../i18n/translate';
import { Glyph } from './icons';
import type { PanelState } from './state';

export function Marked({
  state,
  words = shown => __('%1 marked', shown)
}: {
  state: PanelState;
  words?: (shown: string) => string;
}) {
  const brush = state.brush.value;
  return (
    brush && (
      <button
        type="button"
        class="cm-range"
        title={__('Show everything again')}
        onClick={() => (state.brush.value = null)}
      >
        {words(duration(brush[1] - brush[0]))}
        <Glyph name="close" />
      </button>
    )
  );
}
