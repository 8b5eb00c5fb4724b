// The part of JupyterLab and Lumino that the panel uses, declared by hand from the 4.6 sources: the packages themselves
// are 320 MB of node_modules and come with the running application anyway. Checked once against the real declarations by
// compiling without this file (2026-11-21, JupyterLab 4.6.4); do that again after changing it.

declare module '@lumino/signaling' {
  export interface ISignal<T, U> {
    connect(slot: (sender: T, args: U) => void, thisArg?: unknown): boolean;
    disconnect(slot: (sender: T, args: U) => void, thisArg?: unknown): boolean;
  }
}

declare module '@lumino/messaging' {
  export class Message {
    readonly type: string;
  }
}

declare module '@lumino/coreutils' {
  /** The key of a service. */
  export class Token<T> {
    private readonly _type: T;
    readonly name: string;
  }
}

declare module '@lumino/commands' {
  type Arguments = Readonly<Record<string, unknown>>;

  export namespace CommandRegistry {
    interface ICommandOptions {
      execute(args: Arguments): unknown;
      label?: string | ((args: Arguments) => string);
      caption?: string;
      icon?: object;
      describedBy?: { args: object | null };
    }
  }
  export class CommandRegistry {
    addCommand(id: string, options: CommandRegistry.ICommandOptions): unknown;
    execute(id: string, args?: Record<string, unknown>): Promise<unknown>;
    hasCommand(id: string): boolean;
  }
}

declare module '@lumino/widgets' {
  import type { Message } from '@lumino/messaging';
  import type { ISignal } from '@lumino/signaling';

  export class Title {
    label: string;
    caption: string;
    icon: object | undefined;
    closable: boolean;
  }
  export class Widget {
    id: string;
    readonly node: HTMLElement;
    readonly title: Title;
    readonly isAttached: boolean;
    readonly isDisposed: boolean;
    readonly isVisible: boolean;
    readonly disposed: ISignal<this, void>;
    addClass(name: string): void;
    dispose(): void;
    protected onAfterAttach(message: Message): void;
    protected onBeforeDetach(message: Message): void;
    protected onAfterShow(message: Message): void;
    protected onAfterHide(message: Message): void;
    protected onCloseRequest(message: Message): void;
    close(): void;
  }
}

declare module '@jupyterlab/services' {
  import type { ISignal } from '@lumino/signaling';

  export namespace KernelMessage {
    interface IMessage {
      channel: string;
      content: object;
      buffers?: (ArrayBuffer | ArrayBufferView)[];
    }
    interface IIOPubMessage extends IMessage {
      channel: 'iopub';
    }
    interface IDebugRequestMsg extends IMessage {
      channel: 'control';
      content: { seq: number; command: string };
    }
    interface ICommMsgMsg extends IIOPubMessage {
      content: { comm_id: string; data: Record<string, unknown> };
    }
    interface IReplyErrorContent {
      status: 'error';
      ename: string;
      evalue: string;
      traceback: string[];
    }
    interface IExecuteReplyMsg extends IMessage {
      content: { status: 'ok' | 'abort' } | IReplyErrorContent;
    }
    interface IOptions<T extends IMessage> {
      session: string;
      channel: T['channel'];
      msgType: 'debug_request';
      username: string;
      content: T['content'];
    }
    function createMessage<T extends IDebugRequestMsg>(options: IOptions<T>): T;
    function isCommMsgMsg(message: IIOPubMessage): message is ICommMsgMsg;
  }

  export namespace Kernel {
    type Status =
      | 'unknown'
      | 'starting'
      | 'idle'
      | 'busy'
      | 'terminating'
      | 'restarting'
      | 'autorestarting'
      | 'dead';
    type ConnectionStatus = 'connected' | 'connecting' | 'disconnected';

    interface IFuture<Reply> {
      readonly done: Promise<Reply>;
      onReply: (message: Reply) => PromiseLike<void> | void;
      dispose(): void;
    }
    interface IComm {
      commsOverSubshells: 'disabled' | 'perComm' | 'perCommTarget';
      dispose(): void;
    }
    interface IKernelConnection {
      readonly id: string;
      readonly clientId: string;
      readonly username: string;
      readonly isDisposed: boolean;
      readonly status: Status;
      readonly connectionStatus: ConnectionStatus;
      sendControlMessage(
        message: KernelMessage.IDebugRequestMsg,
        expectReply?: boolean,
        disposeOnDone?: boolean
      ): IFuture<KernelMessage.IMessage>;
      requestExecute(content: { code: string; store_history?: boolean }): IFuture<KernelMessage.IExecuteReplyMsg>;
      readonly iopubMessage: ISignal<this, KernelMessage.IIOPubMessage>;
      readonly statusChanged: ISignal<this, Status>;
      readonly connectionStatusChanged: ISignal<this, ConnectionStatus>;
      registerCommTarget(targetName: string, callback: (comm: IComm) => PromiseLike<void> | void): void;
    }
  }
}

declare module '@jupyterlab/apputils' {
  import type { Kernel } from '@jupyterlab/services';
  import type { ISignal } from '@lumino/signaling';
  import type { Token } from '@lumino/coreutils';
  import type { Widget } from '@lumino/widgets';

  export interface ISessionContext {
    readonly session: { readonly kernel: Kernel.IKernelConnection | null } | null;
    readonly kernelChanged: ISignal<this, unknown>;
    readonly statusChanged: ISignal<this, Kernel.Status>;
    readonly connectionStatusChanged: ISignal<this, Kernel.ConnectionStatus>;
  }
  export interface ICommandPalette {
    addItem(options: { command: string; category: string }): unknown;
  }
  export const ICommandPalette: Token<ICommandPalette>;
  export interface IWidgetTracker<T extends Widget> {
    readonly currentWidget: T | null;
    readonly currentChanged: ISignal<this, T | null>;
    readonly widgetAdded: ISignal<this, T>;
    forEach(visit: (widget: T) => void): void;
    has(widget: Widget): boolean;
  }
  export class WidgetTracker<T extends Widget> implements IWidgetTracker<T> {
    constructor(options: { namespace: string });
    readonly currentWidget: T | null;
    readonly currentChanged: ISignal<this, T | null>;
    readonly widgetAdded: ISignal<this, T>;
    add(widget: T): Promise<void>;
    forEach(visit: (widget: T) => void): void;
    has(widget: Widget): boolean;
  }
}

declare module '@jupyterlab/docregistry' {
  import type { Widget } from '@lumino/widgets';

  export namespace DocumentRegistry {
    interface IFileType {
      name: string;
      displayName: string;
      extensions: readonly string[];
      mimeTypes: readonly string[];
      contentType: 'file';
      fileFormat: 'base64';
      icon: object;
    }
    interface Context {
      readonly path: string;
      readonly ready: Promise<void>;
      readonly model: { toString(): string };
    }
    interface IWidgetFactoryOptions {
      name: string;
      label: string;
      modelName: string;
      fileTypes: readonly string[];
      defaultFor: readonly string[];
      readOnly: boolean;
    }
  }
  export class DocumentRegistry {
    addFileType(type: DocumentRegistry.IFileType): unknown;
    addWidgetFactory(factory: ABCWidgetFactory): unknown;
  }
  export class DocumentWidget extends Widget {
    constructor(options: { content: Widget; context: DocumentRegistry.Context });
    readonly content: Widget;
  }
  export abstract class ABCWidgetFactory {
    constructor(options: DocumentRegistry.IWidgetFactoryOptions);
    protected abstract createNewWidget(context: DocumentRegistry.Context): DocumentWidget;
  }
}

declare module '@jupyterlab/translation' {
  import type { Token } from '@lumino/coreutils';

  export interface TranslationBundle {
    __(msgid: string, ...args: string[]): string;
    _n(msgid: string, plural: string, n: number, ...args: string[]): string;
  }
  export interface ITranslator {
    readonly languageCode: string;
    load(domain: string): TranslationBundle;
  }
  export const ITranslator: Token<ITranslator>;
}

declare module '@jupyterlab/application' {
  import type { DocumentRegistry } from '@jupyterlab/docregistry';
  import type { IWidgetTracker } from '@jupyterlab/apputils';
  import type { CommandRegistry } from '@lumino/commands';
  import type { Token } from '@lumino/coreutils';
  import type { ISignal } from '@lumino/signaling';
  import type { Widget } from '@lumino/widgets';

  export interface JupyterFrontEndPlugin<T> {
    id: string;
    description?: string;
    autoStart?: boolean;
    requires?: Token<unknown>[];
    optional?: Token<unknown>[];
    // The services after the first argument are those of `requires` and `optional`, which no type can express.
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    activate: (app: JupyterFrontEnd, ...services: any[]) => T;
  }
  export namespace JupyterFrontEnd {
    interface IShell {
      add(widget: Widget, area?: string): void;
      activateById(id: string): void;
    }
  }
  export interface JupyterFrontEnd {
    readonly commands: CommandRegistry;
    readonly docRegistry: DocumentRegistry;
    readonly shell: JupyterFrontEnd.IShell;
    readonly restored: Promise<void>;
  }
  export interface ILabShell {
    readonly currentWidget: Widget | null;
    readonly layoutModified: ISignal<this, void>;
    add(widget: Widget, area: 'main', options: { mode: 'split-right' | 'split-left' | 'tab-after'; activate: boolean; ref?: string }): void;
  }
  export const ILabShell: Token<ILabShell>;
  export interface ILayoutRestorer {
    restore<T extends Widget>(
      tracker: IWidgetTracker<T>,
      options: { command: string; args: (widget: T) => Record<string, boolean>; name: (widget: T) => string }
    ): Promise<unknown>;
  }
  export const ILayoutRestorer: Token<ILayoutRestorer>;
}

declare module '@jupyterlab/launcher' {
  import type { Token } from '@lumino/coreutils';

  export interface ILauncher {
    add(options: { command: string; args?: Record<string, boolean>; category: string; rank: number }): unknown;
  }
  export const ILauncher: Token<ILauncher>;
}

declare module '@jupyterlab/notebook' {
  import type { ISessionContext, IWidgetTracker } from '@jupyterlab/apputils';
  import type { Token } from '@lumino/coreutils';
  import type { Widget } from '@lumino/widgets';

  export interface NotebookPanel extends Widget {
    readonly sessionContext: ISessionContext;
    readonly context: { readonly path: string };
    readonly content: Notebook;
  }
  export interface Notebook extends Widget {
    readonly widgets: readonly (Widget & { readonly model: { readonly id: string } })[];
    activeCellIndex: number;
    scrollToItem(index: number, align?: 'auto' | 'smart' | 'center' | 'start' | 'end'): Promise<void>;
  }
  export type INotebookTracker = IWidgetTracker<NotebookPanel>;
  export const INotebookTracker: Token<INotebookTracker>;
}

declare module '@jupyterlab/settingregistry' {
  import type { ISignal } from '@lumino/signaling';
  import type { Token } from '@lumino/coreutils';

  export interface ISettings {
    readonly changed: ISignal<this, void>;
    get(key: string): { composite: unknown };
  }
  export interface IPlugin {
    schema: { description?: string; properties: Record<string, { title?: string; description?: string }> };
  }
  export interface ISettingRegistry {
    load(plugin: string): Promise<ISettings>;
    transform(plugin: string, transforms: { fetch(plugin: IPlugin): IPlugin }): object;
  }
  export const ISettingRegistry: Token<ISettingRegistry>;
}

declare module '@jupyterlab/ui-components' {
  export class LabIcon {
    constructor(options: { name: string; svgstr: string });
  }
}
