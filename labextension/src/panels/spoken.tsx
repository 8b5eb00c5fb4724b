// Describes the picture in words for screen readers.

import { useEffect, useRef } from 'preact/hooks';
import { workOf } from '../model/work';
import { describeGroup, describeRow, summary } from './shared/describe';
import type { PanelState } from './shared/state';

/** A screen reader is told of progress this often. */
const SPOKEN_MS = 6000;

export function Spoken({ state }: { state: PanelState }) {
  const region = useRef<HTMLDivElement>(null);
  const spokenAt = useRef(-SPOKEN_MS);
  const tick = state.tick.value;
  const picked = state.selection.value;
  useEffect(() => {
    const graph = state.graph;
    if (!region.current || !graph) {
      return;
    }
    const now = performance.now();
    if (picked?.kind === 'task' && picked.index < graph.n) {
      region.current.textContent = describeRow(graph, picked.index, graph.time(now)).join(', ');
    } else if (picked?.kind === 'group' && picked.index < graph.groups.list.length) {
      region.current.textContent = describeGroup(graph, picked.index).join(', ');
    }
  }, [picked]);
  useEffect(() => {
    const graph = state.graph;
    const now = performance.now();
    if (!region.current) {
      return;
    }
    if (!graph?.n) {
      region.current.textContent = ''; // of another notebook, or of before a restart
      delete region.current.dataset['summary'];
      return;
    }
    const { counts } = graph;
    const isDone = counts.waiting + counts.queued + counts.running === 0;
    if (isDone || now - spokenAt.current > SPOKEN_MS) {
      const nTasks =
        counts.waiting + counts.queued + counts.running + counts.finished + counts.failed + counts.cancelled;
      const text = summary(counts, nTasks, workOf(graph, graph.time(now)).seconds);
      if (region.current.dataset['summary'] !== text) {
        region.current.dataset['summary'] = text;
        region.current.textContent = text;
        spokenAt.current = now;
      }
    }
  }, [tick, state.status.value]);
  return <div ref={region} class="cm-spoken" aria-live="polite" />;
}
