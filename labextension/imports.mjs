// Checks the direction of imports between folders, and that imports form no circle: part of `npm run lint`.
//
//     node labextension/imports.mjs
//
// Imports of types count as well: a reader has to follow them too.
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Folders from the bottom to the top: each may import those before it. */
export const ORDER = [
  'protocol',
  'i18n',
  'model',
  'model/views',
  'layout',
  'theme',
  'draw',
  'connection',
  'recording',
  'panels/shared',
  'panels/*', // one folder a view; views do not know each other
  'panels',
  'lab',
  'entry',
  '.'
];

/** A folder's place in the order; -1 if it has none. */
function rankOf(folder) {
  const isView = folder.startsWith('panels/') && folder !== 'panels/shared';
  return ORDER.indexOf(isView ? 'panels/*' : folder);
}

/** What each file imports of the others, static or dynamic, types or values. */
function graphOf(files) {
  const resolved = path => ['', '.ts', '.tsx'].map(end => path + end).find(each => files.has(each));
  return new Map(
    [...files].map(([path, text]) => {
      const named = [...text.matchAll(/(?:\bfrom |\bimport\(|\bimport )'(\.[^']+)'/g)].map(([, to]) => to);
      return [path, named.map(to => resolved(normalize(join(dirname(path), to)))).filter(to => to !== undefined)];
    })
  );
}

/** The files of one circle, in order, or null. */
function circleIn(graph) {
  const done = new Set();
  const way = [];
  const visit = path => {
    if (way.includes(path)) {
      return [...way.slice(way.indexOf(path)), path];
    }
    if (done.has(path)) {
      return null;
    }
    way.push(path);
    for (const next of graph.get(path)) {
      const circle = visit(next);
      if (circle) {
        return circle;
      }
    }
    way.pop();
    done.add(path);
    return null;
  };
  for (const path of graph.keys()) {
    const circle = visit(path);
    if (circle) {
      return circle;
    }
  }
  return null;
}

/**
 * What is wrong with the imports of some files, a line each.
 *
 * @param {Map<string, string>} files their texts by path, relative to `src`
 * @returns {string[]}
 */
export function problems(files) {
  const graph = graphOf(files);
  const found = [];
  for (const [path, imported] of graph) {
    const folder = dirname(path);
    if (rankOf(folder) < 0) {
      found.push(`${path}: the folder ${folder} has no place in the order of imports`);
    }
    for (const to of imported) {
      const [from, target] = [rankOf(folder), rankOf(dirname(to))];
      if (dirname(to) !== folder && target >= from) {
        found.push(`${path}: must not import ${to}, which is ${target === from ? 'beside' : 'above'} it`);
      }
    }
  }
  const circle = circleIn(graph);
  if (circle) {
    found.push(`${circle[0]}: a circle of imports: ${circle.join(' -> ')}`);
  }
  return found;
}

/** The sources below a folder, without tests. */
async function sources(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter(entry => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.name.endsWith('.d.ts'))
    .map(entry => join(entry.parentPath, entry.name))
    .filter(path => !path.includes('__tests__'));
  return new Map(await Promise.all(paths.map(async path => [relative(folder, path), await readFile(path, 'utf8')])));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = problems(await sources(fileURLToPath(new URL('src', import.meta.url))));
  found.forEach(problem => console.error(`src/${problem}`));
  process.exitCode = found.length ? 1 : 0;
}
