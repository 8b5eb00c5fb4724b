// The transport to a kernel in JupyterLab. Requests go on the control channel, which answers while a cell runs. Graph
// messages are comm messages with an id that the panel chose. There is no comm object at this end: opening one would
// wait for the running cell, and making one starts a thread in the kernel (a subshell). The messages are read from the
// iopub stream instead.

import type { NotebookPanel } from '@jupyterlab/notebook';
import { type Kernel, KernelMessage } from '@jupyterlab/services';
import type { Transport } from '../connection/connection';
import { __ } from '../i18n/translate';
import type { Buffer } from '../protocol/check';
import { decodeReply, type ReplyContent } from '../protocol/decode';
import { NoAnswer, Refusal } from '../protocol/errors';
import { type Request, REQUEST_TYPE } from '../protocol/messages';
import { revealCell } from './reveal';

/**
 * The answers of kernels to `hello`, if any. A kernel without cellmesh logs every unknown message, so it is asked once.
 * When cellmesh is loaded the kernel says so, and a restarted kernel is forgotten here.
 */
const hellos = new WeakMap<Kernel.IKernelConnection, Promise<ReplyContent>>();

/** This kernel may answer differently now: it was restarted, or cellmesh was loaded. */
export function forgetHello(kernel: Kernel.IKernelConnection): void {
  hellos.delete(kernel);
}

export class KernelTransport implements Transport {
  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly notebook: NotebookPanel,
    /** Opens a file of the server, where the application can. */
    private readonly openFile: (path: string) => void
  ) {}

  get label(): string {
    return this.notebook.title.label;
  }

  request(request: Request, timeoutMs: number): Promise<ReplyContent> {
    const { kernel } = this;
    if (request.op !== 'hello') {
      return this.send(request, timeoutMs);
    }
    const hello = hellos.get(kernel) ?? this.send(request, timeoutMs);
    hellos.set(kernel, hello);
    return hello;
  }

  private send(request: Request, timeoutMs: number): Promise<ReplyContent> {
    const { kernel } = this;
    // JupyterLab's types know only one request on this channel, so this message borrows its type; the kernel's
    // extension handles the real one.
    const message = KernelMessage.createMessage<KernelMessage.IDebugRequestMsg>({
      channel: 'control',
      msgType: REQUEST_TYPE as 'debug_request',
      session: kernel.clientId,
      username: kernel.username,
      content: request as unknown as KernelMessage.IDebugRequestMsg['content']
    });
    return new Promise((resolve, reject) => {
      const future = kernel.sendControlMessage(message, true, true);
      const timer = setTimeout(() => {
        reject(new NoAnswer(__('The kernel does not answer.')));
        future.dispose();
      }, timeoutMs);
      future.onReply = reply => {
        clearTimeout(timer);
        try {
          resolve(decodeReply(reply.content));
        } catch (error) {
          reject(error);
        }
      };
      // Disposed before it was answered: the kernel restarted.
      future.done.catch(() => {
        clearTimeout(timer);
        reject(new NoAnswer(__('The kernel was restarted before it could answer.')));
      });
    });
  }

  subscribe(commId: string, receive: (data: unknown, buffers: readonly Buffer[]) => void): () => void {
    const listen = (_: unknown, message: KernelMessage.IIOPubMessage) => {
      if (KernelMessage.isCommMsgMsg(message) && message.content.comm_id === commId) {
        receive(message.content.data, message.buffers ?? []);
      }
    };
    this.kernel.iopubMessage.connect(listen);
    return () => this.kernel.iopubMessage.disconnect(listen);
  }

  async load(): Promise<void> {
    const reply = await this.kernel.requestExecute({ code: '%load_ext cellmesh', store_history: false }).done;
    forgetHello(this.kernel);
    if (reply.content.status === 'error') {
      const { ename, evalue } = reply.content as KernelMessage.IReplyErrorContent;
      const isMissing = ename === 'ModuleNotFoundError';
      throw new Refusal(
        ename,
        isMissing
          ? __('cellmesh is not installed in the environment of this kernel; there, pip install cellmesh brings it.')
          : `${ename}: ${evalue}`
      );
    }
  }

  /** A kernel's working folder is that of its notebook, unless it was changed. */
  open(path: string): void {
    const folder = this.notebook.context.path.replace(/[^/]*$/, '');
    this.openFile(`${folder}${path}`);
  }

  reveal(cellId: string): void {
    revealCell(this.notebook, cellId);
  }
}
