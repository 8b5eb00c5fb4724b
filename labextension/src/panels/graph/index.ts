// The panel as a widget of JupyterLab's shell: a frame for the view, which exists while the widget is attached.

import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { h, render } from 'preact';
import { installStyles } from '../../styles';
import { Body } from './body';
import { PanelState } from './state';

export class GraphPanel extends Widget {
  readonly state = new PanelState();
  /** Told when the panel comes into sight or goes out of it. */
  onVisible: ((isVisible: boolean) => void) | null = null;

  constructor() {
    super();
    this.addClass('cm-host');
  }

  /** Closed is gone: an old picture must not come back with the next one. */
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
