// The way to a kernel in JupyterLab: requests on the control channel, which answers while a cell runs, and graph messages
// as comm messages with an id that the panel chose. There is no comm object at this end: opening one would wait for the
// running cell, and making one starts a thread in the kernel (a subshell). The messages are simply read as they pass.

import { type Kernel, KernelMessage } from '@jupyterlab/services';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Transport } from '../connection';
import { type Buffer, decodeReply } from '../decode';
import { NoAnswer, REQUEST_TYPE, Refusal, type ReplyContent, type Request } from '../protocol';
import { __ } from '../text';
import { revealCell } from './reveal';

/**
 * What kernels answer, or do not, to `hello`. A kernel without cellmesh notes every message that it does not know in its log,
 * so it is asked once; when that changes, it says so itself or starts anew.
 */
const hellos = new WeakMap<Kernel.IKernelConnection, Promise<ReplyContent>>();

/** This kernel may answer otherwise now: it has been started anew, or cellmesh has been loaded. */
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
    // A message of our own in the shape of JupyterLab's other request on this channel. JupyterLab's list of types does not
    // have it; the kernel's extension does.
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
          reject(error as Error);
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
        isMissing ? __('cellmesh is not installed in the environment of this kernel; there, pip install cellmesh brings it.') : `${ename}: ${evalue}`
      );
    }
  }

  /** Kernels work in the folder of their notebook, unless somebody tells them otherwise. */
  open(path: string): void {
    const folder = this.notebook.context.path.replace(/[^/]*$/, '');
    this.openFile(`${folder}${path}`);
  }

  reveal(cellId: string): void {
    revealCell(this.notebook, cellId);
  }
}
