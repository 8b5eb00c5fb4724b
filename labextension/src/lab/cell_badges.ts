// Badges beside the prompts of cells that show the progress of their tasks. They exist while the panel follows the
// notebook: only then is the progress known.

import type { NotebookPanel } from '@jupyterlab/notebook';
import { effect } from '@preact/signals';
import { h, render } from 'preact';
import { badgesOf } from '../model/badges';
import { Mark } from '../panels/shared/icons';
import type { PanelState } from '../panels/shared/state';
import { watch } from '../panels/shared/watch';

const CLASS = 'cm-badge';
/** Lower cells have no room below their prompt. */
const TALL_PX = 46;

export class CellBadges {
  private readonly elements = new Map<string, HTMLElement>();
  private readonly stop: () => void;

  /** `notebook` returns the followed notebook or null; `open` shows the panel. */
  constructor(
    private readonly state: PanelState,
    private readonly notebook: () => NotebookPanel | null,
    private readonly open: () => void
  ) {
    this.stop = effect(() => {
      watch(state.tick, state.status);
      this.update();
    });
  }

  dispose(): void {
    this.stop();
    this.clear();
  }

  private clear(): void {
    for (const element of this.elements.values()) {
      render(null, element);
      element.remove();
    }
    this.elements.clear();
  }

  private update(): void {
    const notebook = this.notebook();
    const graph = this.state.connection.peek()?.graph;
    if (!notebook || !graph || this.state.status.peek() !== 'live') {
      this.clear();
      return;
    }
    const badges = badgesOf(graph);
    for (const [id, element] of this.elements) {
      if (!badges.has(id) || !notebook.node.contains(element)) {
        render(null, element);
        element.remove();
        this.elements.delete(id);
      }
    }
    for (const cell of notebook.content.widgets) {
      const badge = badges.get(cell.model.id);
      const area = badge && cell.node.querySelector<HTMLElement>('.jp-Cell-inputArea');
      if (!badge || !area) {
        continue;
      }
      let element = this.elements.get(cell.model.id);
      if (!element) {
        element = document.createElement('button');
        element.className = CLASS;
        element.addEventListener('click', this.open);
        this.elements.set(cell.model.id, element);
        area.append(element);
      }
      if (element.title !== badge.title) {
        element.classList.toggle('cm-small', area.offsetHeight < TALL_PX);
        element.title = badge.title;
        element.setAttribute('aria-label', badge.title);
        element.style.setProperty('--cm-share', `${(100 * badge.share).toFixed(1)}%`);
        render([h(Mark, { state: badge.state }), h('span', {}, badge.text)], element);
      }
    }
  }
}
