declare module '@jupyterlab/application' {
  export interface JupyterFrontEndPlugin<T> { id: string; activate: (...args: never[]) => T }
}
