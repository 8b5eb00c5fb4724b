// Bundles the TypeScript sources: the panel's plugins for the labextension builder, and the notebook widget.
//
//     node labextension/build.mjs          makes lib/index.js, and in ../kernel_ext/panel/static widget.js with its
//                                          loader and page.js, the code of a page that contains a recording
//     node labextension/build.mjs --dev    serves dev/index.html, the graph on a synthetic trace; rebuilds on request
//
// Both bundles are made from the same modules. JupyterLab's and Lumino's packages are never bundled: the running
// application provides them.
import { build, context, transform } from 'esbuild';
import { createHash } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const here = path => fileURLToPath(new URL(path, import.meta.url));
/** Style sheets are imported as text, small. */
const styles = {
  name: 'styles',
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, 'utf8'), { loader: 'css', minify: true });
      return { contents: code, loader: 'text' };
    });
  }
};
const common = {
  bundle: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'info',
  loader: { '.svg': 'text' },
  plugins: [styles],
  jsx: 'automatic',
  jsxImportSource: 'preact'
};

if (process.argv.includes('--dev')) {
  const dev = await context({
    ...common,
    entryPoints: [here('dev/main.tsx')],
    outdir: here('dev'),
    write: false,
    sourcemap: 'inline'
  });
  const port = Number(process.argv[process.argv.indexOf('--port') + 1]) || 8123;
  await dev.serve({ servedir: here('dev'), host: '127.0.0.1', port });
} else {
  await rm(here('lib'), { recursive: true, force: true }); // parts of an earlier build have other names
  await build({
    ...common,
    entryPoints: [here('src/index.ts')],
    outdir: here('lib'),
    splitting: true,
    external: ['@jupyterlab/*', '@lumino/*']
  });
  const widget = here('../kernel_ext/panel/static/widget.js');
  await build({ ...common, entryPoints: [here('src/entry/widget.ts')], outfile: widget, minify: true });
  await build({
    ...common,
    entryPoints: [here('src/entry/page.ts')],
    outfile: here('../kernel_ext/panel/static/page.js'),
    minify: true,
    format: 'iife'
  });
  const digest = createHash('sha256')
    .update(await readFile(widget))
    .digest('hex')
    .slice(0, 16);
  await build({
    ...common,
    entryPoints: [here('src/entry/loader.ts')],
    outfile: here('../kernel_ext/panel/static/loader.js'),
    minify: true,
    define: { DIGEST: JSON.stringify(digest) }
  });
}
