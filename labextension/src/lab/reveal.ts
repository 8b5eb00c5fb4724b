// Scrolls to a notebook's cell and highlights it for a moment.

import type { NotebookPanel } from '@jupyterlab/notebook';

const FLASH = 'cm-flash';
const FLASH_MS = 1400;

export function revealCell(notebook: NotebookPanel, cellId: string): void {
  const { content } = notebook;
  const index = content.widgets.findIndex(cell => cell.model.id === cellId);
  const cell = content.widgets[index];
  if (!cell) {
    return; // deleted since
  }
  content.activeCellIndex = index;
  void content.scrollToItem(index, 'smart').then(() => {
    cell.node.classList.remove(FLASH);
    cell.node.getBoundingClientRect(); // forces a layout, so that the animation starts again
    cell.node.classList.add(FLASH);
    setTimeout(() => cell.node.classList.remove(FLASH), FLASH_MS);
  });
}
