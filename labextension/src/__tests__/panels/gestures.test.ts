import { expect, test, vi } from 'vitest';
import { type Gestures, listen } from '../../panels/shared/gestures';

const NAMES = [
  'hover',
  'leave',
  'click',
  'open',
  'pan',
  'zoomAt',
  'zoom',
  'walk',
  'openChosen',
  'dismiss',
  'fit',
  'follow',
  'toggleGroups'
] as const;

/** As in a browser, unlike in Node.js: a passive listener cannot prevent anything. */
class Target extends EventTarget {
  override addEventListener(type: string, handler: (event: Event) => void, options: AddEventListenerOptions): void {
    const listener = (event: Event) =>
      handler(options.passive ? Object.assign(event, { preventDefault: () => undefined }) : event);
    super.addEventListener(type, listener, options);
  }
}

/** An element for events only, and a record of the gestures. */
function graph() {
  const gestures = Object.fromEntries(NAMES.map(name => [name, vi.fn()])) as unknown as Gestures;
  const element = new Target();
  listen(element as HTMLElement, gestures, () => true, new AbortController().signal);
  const press = (key: string, held: object = {}) => {
    const event = Object.assign(new Event('keydown', { cancelable: true }), { key, ...held });
    element.dispatchEvent(event);
    return event.defaultPrevented;
  };
  return { gestures, press };
}

test.each(['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Enter', 'Escape', '+', '-', 'f', 'L', 'g'])(
  '%s is the graph’s: the page does not scroll',
  key => {
    expect(graph().press(key)).toBe(true);
  }
);

test('keys that mean nothing here, and the commands of others, are left to the page', () => {
  const { gestures, press } = graph();
  expect([
    press('PageDown'),
    press('Tab'),
    press('ArrowDown', { ctrlKey: true }),
    press('f', { metaKey: true })
  ]).toEqual([false, false, false, false]);
  expect(gestures.walk).not.toHaveBeenCalled();
  press('ArrowDown');
  expect(gestures.walk).toHaveBeenCalledWith('down', 1);
});
