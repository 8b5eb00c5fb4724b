// The way to a kernel in JupyterLab: requests on the control channel, which answers while a cell runs, and graph messages
// on a comm whose id the panel chose. The comm object is never opened from here: opening would wait for the running cell.

import { type Kernel, KernelMessage } from '@jupyterlab/services';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Transport } from '../connection';
import { type Buffer, decodeReply } from '../decode';
import { COMM_TARGET, NoAnswer, REQUEST_TYPE, type ReplyContent, type Request } from '../protocol';
import { revealCell } from './reveal';

export class KernelTransport implements Transport {
  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly notebook: NotebookPanel
  ) {}

  get label(): string {
    return this.notebook.title.label;
  }

  request(request: Request, timeoutMs: number): Promise<ReplyContent> {
    const { kernel } = this;
    const message = KernelMessage.createMessage<KernelMessage.IMessage>({
      channel: 'control',
      // A message of our own: JupyterLab's list of types does not know it, the kernel's extension does.
      msgType: REQUEST_TYPE as KernelMessage.MessageType,
      session: kernel.clientId,
      username: kernel.username,
      content: request as unknown as KernelMessage.IMessage['content']
    });
    return new Promise((resolve, reject) => {
      const future = kernel.sendControlMessage(message as KernelMessage.IControlMessage, true, true);
      const timer = setTimeout(() => {
        reject(new NoAnswer('The kernel does not answer.'));
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
        reject(new NoAnswer('The kernel was restarted before it could answer.'));
      });
    });
  }

  subscribe(commId: string, receive: (data: unknown, buffers: readonly Buffer[]) => void): () => void {
    const comm = this.kernel.createComm(COMM_TARGET, commId);
    comm.onMsg = message => receive(message.content.data, message.buffers ?? []);
    return () => comm.dispose();
  }

  async load(): Promise<void> {
    const reply = await this.kernel.requestExecute({ code: '%load_ext cellmesh', store_history: false }).done;
    if (reply.content.status === 'error') {
      const { ename, evalue } = reply.content as KernelMessage.IReplyErrorContent;
      throw new Error(
        ename === 'ModuleNotFoundError'
          ? "cellmesh is not installed in this kernel's environment; there, `pip install cellmesh` brings it."
          : `${ename}: ${evalue}`
      );
    }
  }

  reveal(cellId: string): void {
    revealCell(this.notebook, cellId);
  }
}
