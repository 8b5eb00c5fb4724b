// types/: types of what is imported and is no script; never code.

// Imported as text by esbuild.
declare module '*.css' {
  const text: string;
  export default text;
}
declare module '*.svg' {
  const text: string;
  export default text;
}
