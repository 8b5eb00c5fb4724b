import { afterEach, expect, test, vi } from 'vitest';

const kept = new Map<string, string>();
const storage = {
  getItem: (key: string) => kept.get(key) ?? null,
  setItem: (key: string, value: string) => void kept.set(key, value)
};

/** The tab's name after a navigation of this type. */
async function nameAfter(type: string): Promise<string> {
  vi.resetModules();
  vi.stubGlobal('sessionStorage', storage);
  vi.spyOn(performance, 'getEntriesByType').mockReturnValue([{ type } as PerformanceNavigationTiming]);
  const { tabId } = await import('../../connection/connection');
  expect(tabId()).toBe(tabId());
  return tabId();
}

afterEach(() => vi.unstubAllGlobals());

test('a tab has the same name after a reload, and a tab made from it another', async () => {
  const first = await nameAfter('navigate');
  expect(await nameAfter('reload')).toBe(first);
  expect(await nameAfter('reload')).toBe(first);
  expect(await nameAfter('navigate')).not.toBe(first);
});

test('a page without storage has a name for itself', async () => {
  vi.resetModules();
  vi.stubGlobal('sessionStorage', undefined);
  const { tabId } = await import('../../connection/connection');
  expect(tabId()).toMatch(/^[0-9a-f]{32}$/);
});
