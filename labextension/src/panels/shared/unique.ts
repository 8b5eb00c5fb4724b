// Ids that are unique in the page. Those of Preact's `useId` are unique below one root only, and each widget is a root.

import { useState } from 'preact/hooks';

export function useUniqueId(): string {
  const [id] = useState(() => `cm-${Math.random().toString(36).slice(2, 12)}`);
  return id;
}
