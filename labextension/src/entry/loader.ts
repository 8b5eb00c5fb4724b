// entry/: the scripts of a widget and of a saved page; never a view of its own, nor JupyterLab.

// The module that travels with every widget and is saved with every notebook, so it is small. It asks the kernel for
// the code of the view (`widget.ts`) when a view is shown, once for each version in a page.

import type { WidgetCode, WidgetMemory, WidgetModel } from './widget';

/** Digest of the view's code; the build puts it in. */
declare const DIGEST: string;

const page = globalThis as { cellmeshWidgets?: Map<string, WidgetCode> };
/** This module is loaded once for each model, so its variables outlive the model's views. */
const memory: WidgetMemory = {};

function ask(model: WidgetModel): Promise<WidgetCode> {
  return new Promise((resolve, reject) => {
    const listener = (content: unknown, buffers: readonly (ArrayBuffer | ArrayBufferView)[] = []) => {
      if ((content as { type?: unknown } | null)?.type === 'code') {
        model.off('msg:custom', listener);
        unpack(buffers[0] as BufferSource).then(resolve, reject);
      }
    };
    model.on('msg:custom', listener);
    model.send({ op: 'code' });
  });
}

async function unpack(packed: BufferSource): Promise<WidgetCode> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const url = URL.createObjectURL(new Blob([await new Response(stream).text()], { type: 'text/javascript' }));
  try {
    return ((await import(url)) as { default: WidgetCode }).default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

export default {
  async render({ model, el }: { model: WidgetModel; el: HTMLElement }): Promise<() => void> {
    const known = (page.cellmeshWidgets ??= new Map());
    let code = known.get(DIGEST);
    if (!code) {
      const note = document.createElement('small');
      note.textContent = 'The task graph appears when the kernel answers.';
      el.append(note);
      code = await ask(model);
      known.set(DIGEST, code);
      note.remove();
    }
    return code.render({ model, el, memory });
  }
};
