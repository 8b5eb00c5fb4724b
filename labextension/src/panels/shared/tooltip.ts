// A few lines beside the pointer. They are set as text, never as HTML, because their content comes from tasks.

import type { Size } from '../../layout/camera';

const OFFSET = 14;

export class Tooltip {
  private readonly element = document.createElement('div');

  constructor(host: HTMLElement) {
    this.element.className = 'cm-tooltip';
    this.element.hidden = true;
    host.append(this.element);
  }

  show(lines: readonly string[], x: number, y: number, view: Size): void {
    const { element } = this;
    element.replaceChildren(
      ...lines.map(line => {
        const row = document.createElement('div');
        row.textContent = line;
        return row;
      })
    );
    element.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = element;
    const left = x + OFFSET + width > view.width ? x - OFFSET - width : x + OFFSET;
    const top = y + OFFSET + height > view.height ? y - OFFSET - height : y + OFFSET;
    element.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  hide(): void {
    this.element.hidden = true;
  }

  dispose(): void {
    this.element.remove();
  }
}
