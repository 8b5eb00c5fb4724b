// Components and effects run again when a signal that they have read changes. This reads signals for that effect alone.

import type { ReadonlySignal } from '@preact/signals';

/** The component or effect that calls this runs again whenever one of the signals changes. */
export function watch(...signals: readonly ReadonlySignal<unknown>[]): void {
  signals.forEach(signal => signal.value);
}
