// The panel as a Lumino widget in JupyterLab's shell. Its content exists while the widget is attached.

import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { h, render } from 'preact';
import { Body } from '../panels/body';
import { PanelState } from '../panels/shared/state';
import { installStyles } from '../panels/shared/styles';

export class GraphPanel extends Widget {
  readonly state = new PanelState();
  /** Called when the panel becomes visible or hidden. */
  onVisible: ((isVisible: boolean) => void) | null = null;

  constructor() {
    super();
    this.addClass('cm-host');
  }

  /** Closing disposes of the panel, so that the next one does not begin with an old picture. */
  protected override onCloseRequest(): void {
    this.dispose();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.onVisible?.(false);
      this.onVisible = null;
      this.state.dispose();
      super.dispose();
    }
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    installStyles(this.node);
    render(h(Body, { state: this.state, options: { wheel: 'always' } }), this.node);
    this.onVisible?.(this.isVisible);
  }

  protected override onBeforeDetach(message: Message): void {
    super.onBeforeDetach(message);
    render(null, this.node);
    this.onVisible?.(false);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.onVisible?.(true);
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.onVisible?.(false);
  }
}
