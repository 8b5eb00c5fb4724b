// The view in a notebook's cell, as an anywidget module. Requests and graph messages are custom messages of the widget,
// so it works wherever widgets do.

import { h, render } from 'preact';
import { Connection, tabId, type Transport } from '../connection/connection';
import { __ } from '../i18n/translate';
import { Body } from '../panels/body';
import { type Choice, PanelState } from '../panels/shared/state';
import { installStyles } from '../panels/shared/styles';
import { type Buffer, isObject } from '../protocol/check';
import { decodeReply, type ReplyContent } from '../protocol/decode';
import { NoAnswer } from '../protocol/errors';
import type { Request } from '../protocol/messages';

type Listener = (content: unknown, buffers?: readonly Buffer[]) => void;

/** The model that anywidget gives to a view. */
export interface WidgetModel {
  on(event: 'msg:custom', listener: Listener): void;
  off(event: 'msg:custom', listener: Listener): void;
  send(content: object): void;
}

/**
 * The state that lasts from one view of a model to the next: JupyterLab makes a new view when the cell's output is
 * updated.
 */
export interface WidgetMemory {
  choice?: () => Choice;
}

/** The exports of this module, as `loader.ts` uses them. */
export interface WidgetCode {
  render(view: { model: WidgetModel; el: HTMLElement; memory: WidgetMemory }): () => void;
}

interface Waiting {
  resolve(reply: ReplyContent): void;
  reject(error: unknown): void;
  timer: ReturnType<typeof setTimeout>;
}

let nViews = 0;

class WidgetTransport implements Transport {
  readonly label = 'this notebook';
  private readonly waiting = new Map<number, Waiting>();
  private receive: ((data: unknown, buffers: readonly Buffer[]) => void) | null = null;
  private nRequests = 0;

  constructor(private readonly model: WidgetModel) {
    model.on('msg:custom', this.listener);
  }

  request(request: Request, timeoutMs: number): Promise<ReplyContent> {
    const id = ++this.nRequests;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        reject(new NoAnswer(__('The kernel does not answer; it may be busy, or it was restarted.')));
      }, timeoutMs);
      this.waiting.set(id, { resolve, reject, timer });
      this.model.send({ ...request, request: id });
    });
  }

  subscribe(_commId: string, receive: (data: unknown, buffers: readonly Buffer[]) => void): () => void {
    this.receive = receive;
    return () => {
      this.receive = null;
    };
  }

  dispose(): void {
    this.model.off('msg:custom', this.listener);
    for (const { timer } of this.waiting.values()) {
      clearTimeout(timer);
    }
    this.waiting.clear();
  }

  private readonly listener: Listener = (content, buffers) => {
    if (!isObject(content)) {
      return;
    }
    if (content['type'] === 'code') {
      return; // for a loader
    }
    if (content['type'] !== 'reply') {
      this.receive?.(content, buffers ?? []);
      return;
    }
    // Every view of the widget receives every reply; most belong to other views.
    const waiting = typeof content['request'] === 'number' ? this.waiting.get(content['request']) : undefined;
    if (waiting) {
      this.waiting.delete(content['request'] as number);
      clearTimeout(waiting.timer);
      try {
        waiting.resolve(decodeReply(content['content']));
      } catch (error) {
        waiting.reject(error);
      }
    }
  };
}

/** Whether a page that is not JupyterLab's, which says so itself, is dark: its text is light. */
function isForeignAndDark(element: HTMLElement): boolean {
  if (document.body.dataset['jpThemeLight'] !== undefined) {
    return false;
  }
  const [red = 0, green = 0, blue = 0] = (getComputedStyle(element).color.match(/\d+/g) ?? []).map(Number);
  return red + green + blue > 3 * 140;
}

function renderWidget({ model, el, memory }: Parameters<WidgetCode['render']>[0]): () => void {
  const host = document.createElement('div');
  host.className = 'cm-widget';
  el.append(host);
  installStyles(el);
  const state = new PanelState();
  const transport = new WidgetTransport(model);
  const connection = new Connection(transport, `${tabId()}-${nViews++}`);
  render(h(Body, { state, options: { wheel: 'focused', isInline: true }, isDark: isForeignAndDark(el) }), host);
  state.connect(connection);
  if (memory.choice) {
    state.goOnFrom(memory.choice());
  }
  const choice = () => state.choice;
  memory.choice = choice;
  void connection.start();
  return () => {
    const last = state.choice;
    if (memory.choice === choice) {
      memory.choice = () => last;
    }
    connection.dispose();
    state.dispose();
    transport.dispose();
    render(null, host);
    host.remove();
  };
}

const code: WidgetCode = { render: renderWidget };
export default code;
