// Makes the protocol's TypeScript from `src/protocol/schema.json`, which the kernel's side exports:
//
//     messages.ts      constants, and a type for each message
//     validators.ts    a function for each type that the kernel writes: it returns what arrived as that type, or throws
//
//     node labextension/generate.mjs            writes both files
//     node labextension/generate.mjs --check    fails when a file is not what would be written
//
// The schema has extensions: `x-none` names the number that stands for null, `x-later` marks a field that older
// recordings lack, `x-type` names the type of a text that is one of a few words, and the items of a list that is a
// record carry the field's name as their `title`.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';

const here = path => fileURLToPath(new URL(path, import.meta.url));
const HEAD = '// Made from schema.json by `npm run generate`; do not edit.\n\n';
const ARRAYS = {
  u1: 'Uint8Array',
  '<u2': 'Uint16Array',
  '<u4': 'Uint32Array',
  '<f4': 'Float32Array',
  '<f8': 'Float64Array'
};

const CHECKS = 'column count dictionary flag integer list number oneOf pair record text values'.split(' ');

/** The order of names in an import, as the lint wants it. */
const collator = new Intl.Collator('en', { caseFirst: 'upper', numeric: true });

const camel = name => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
/** ActorState -> ACTOR_STATES */
const listOf = name => `${name.replace(/(?<=[a-z])[A-Z]/g, '_$&').toUpperCase()}S`;
const nameOf = ref => ref.replace('#/$defs/', '');
const literal = value => JSON.stringify(value);

/** Paragraphs as a comment of lines that are not too long. */
function comment(text, indent = '') {
  const lines = text.split(/\n\s*\n/).flatMap((paragraph, i) => {
    const filled =
      paragraph
        .trim()
        .replace(/\s+/g, ' ')
        .match(/.{1,110}(?= |$)/g) ?? [];
    return [...(i ? [''] : []), ...filled.map(line => line.trim())];
  });
  return lines.length === 1
    ? `${indent}/** ${lines[0]} */\n`
    : `${indent}/**\n${lines.map(line => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

/** A check that is a function of that name, of a value and what to call it. */
const named = (type, check) => ({ type, check, call: (at, what) => `${check}(${at}, ${what})` });
/** A check that is code around the value. */
const composed = (type, call) => ({ type, check: `(value, what) => ${call('value', 'what')}`, call });

/** The fields of a record by name, whether it travels as an object or as a list. */
function fieldsOf(definition) {
  return definition.type === 'array'
    ? definition.prefixItems.map((field, i) => [field.title, field, `from[${i}]`])
    : Object.entries(definition.properties).map(([name, field]) => [name, field, `from[${literal(name)}]`]);
}

/** What a field may hold: its type, and the check that returns it. */
function kindOf(field) {
  if (field.$ref) {
    const name = nameOf(field.$ref);
    return named(name, `decode${name}`);
  }
  if (field['x-type']) {
    return composed(field['x-type'], (at, what) => `oneOf(${at}, ${what}, ${listOf(field['x-type'])})`);
  }
  if (field.enum) {
    const words = literal(field.enum);
    return composed(field.enum.map(literal).join(' | '), (at, what) => `oneOf(${at}, ${what}, ${words} as const)`);
  }
  if (field.anyOf) {
    const { type, call } = kindOf(field.anyOf.find(each => each.type !== 'null'));
    const none = field['x-none'] ?? 'null';
    const either = none === 'null' ? `${type} | null` : type;
    return composed(either, (at, what) => `${at} === null ? ${none} : ${call(at, what)}`);
  }
  switch (field.type) {
    case 'string':
      return named('string', 'text');
    case 'boolean':
      return named('boolean', 'flag');
    case 'number':
      return named('number', 'number');
    case 'integer':
      return named('number', field.minimum === 0 ? 'count' : 'integer');
    case 'array': {
      if (field.prefixItems) {
        const [first, second] = field.prefixItems.map(kindOf);
        const checks = `${first.check}, ${second.check}`;
        return composed(`[${first.type}, ${second.type}]`, (at, what) => `pair(${at}, ${what}, ${checks})`);
      }
      const { type, check } = kindOf(field.items);
      return composed(`${type}[]`, (at, what) => `list(${at}, ${what}, ${check})`);
    }
    case 'object': {
      if (!field.additionalProperties) {
        return named('Record<string, unknown>', 'record');
      }
      const { type, check } = kindOf(field.additionalProperties);
      return composed(`Record<string, ${type}>`, (at, what) => `dictionary(${at}, ${what}, ${check})`);
    }
    default:
      throw new Error(`no TypeScript is known for ${literal(field)}`);
  }
}

/** The definitions of one record whose messages differ in their tag alone. */
function merged(definitions) {
  const [first, ...others] = definitions;
  const type = { enum: definitions.map(each => each.properties.type.enum[0]) };
  const properties = { ...first.properties, type };
  for (const other of others) {
    if (JSON.stringify({ ...other.properties, type }) !== JSON.stringify(properties)) {
      throw new Error(`${first.title} and ${other.title} differ in more than their type`);
    }
  }
  const description = definitions.map(({ title, description }) => `${title}: ${description}`).join('\n\n');
  return { ...first, description, properties };
}

/** The words of each named type, by its name. */
function wordsIn(definitions) {
  const fields = definitions.flatMap(definition => fieldsOf(definition).map(([, field]) => field));
  const words = new Map(fields.filter(field => field['x-type']).map(field => [field['x-type'], field.enum]));
  return [...words].sort(([a], [b]) => (a < b ? -1 : 1));
}

function interfaceOf(name, definition) {
  const fields = fieldsOf(definition).map(([field, shape]) => `${field}: ${kindOf(shape).type};`);
  return `${comment(definition.description)}export interface ${name} {\n${fields.join('\n')}\n}\n`;
}

function validatorOf(name, definition) {
  const fields = fieldsOf(definition).map(([field, shape, at]) => {
    const checked = kindOf(shape).call(at, literal(field));
    return `${field}: ${shape['x-later'] ? `${at} === undefined ? ${literal(shape.default)} : ` : ''}${checked}`;
  });
  return `export function decode${name}(value: unknown, what = ${literal(name)}): ${name} {
    const from = ${definition.type === 'array' ? 'values' : 'record'}(value, what);
    return { ${fields.join(', ')} };
  }\n`;
}

/** What each file of the protocol should say, by its path. */
export async function generated() {
  const schema = JSON.parse(await readFile(here('src/protocol/schema.json'), 'utf8'));
  const { $defs, targets, buffers, recording } = schema;
  const written = Object.fromEntries(
    Object.entries($defs).filter(([name]) => !schema.requests.includes(name) && !schema.graph.includes(name))
  );
  const header = merged(schema.graph.map(name => $defs[name]));
  const requests = schema.requests.map(name => {
    const fields = fieldsOf($defs[name]).map(([field, shape]) => `${field}: ${kindOf(shape).type}`);
    return `${comment($defs[name].description, '  ')}  | { ${fields.join('; ')} }`;
  });
  const arraysOf = specs =>
    specs.map(({ name, dtype, items, meaning }) => ({
      name: camel(name),
      type: ARRAYS[dtype],
      items: items.replace(/[a-z]+/, 'header.$&'),
      meaning: `${meaning[0].toUpperCase()}${meaning.slice(1)}.`,
      wire: name
    }));
  const [arrays, trialArrays, learningArrays] = [buffers, schema.trial_buffers, schema.learning_buffers].map(arraysOf);
  const arraysType = (name, about, fields) =>
    `/** ${about} */\nexport interface ${name} {\n${fields
      .map(({ name, type, meaning }) => `${comment(meaning, '  ')}${name}: ${type};`)
      .join('\n')}\n}\n`;
  const arraysDecoder = (name, header, type, about, fields) => [
    `/** ${about} */`,
    `export function ${name}(header: ${header}, buffers: readonly Buffer[]): ${type} {`,
    `return {\n${fields
      .map(({ name, type, items, wire }, i) => `${name}: column(${type}, buffers[${i}], ${items}, ${literal(wire)})`)
      .join(',\n')}\n};\n}\n`
  ];
  const enumeration = (name, members) =>
    `export const ${name} = ${literal(members)} as const;\n` +
    `export type ${name} = (typeof ${name})[keyof typeof ${name}];\n`;

  const words = wordsIn(Object.values(written));
  const messages = [
    `export const VERSION = ${schema.version};`,
    `export const COMM_TARGET = ${literal(targets.comm)};`,
    `export const ANNOUNCE_TARGET = ${literal(targets.announce)};`,
    `export const REQUEST_TYPE = ${literal(targets.request)};`,
    `export const NO_WORKER = ${schema.no_worker};`,
    '/** Processes of other machines have numbers from this one on. */',
    `export const FIRST_REMOTE_WORKER = ${schema.first_remote_worker};`,
    '/** What the kernel calls a function whose name it does not know. */',
    `export const UNKNOWN = ${literal(schema.unknown)};`,
    '/** What the kernel calls objects that no task has made. */',
    `export const PUT_NAMES = ${literal(schema.put_names)} as const;`,
    '/** The kernel keeps so many samples of each machine. */',
    `export const N_SAMPLES_MAX = ${schema.n_samples_max};`,
    '/** Kernel and panel keep so many lines that tasks have printed. */',
    `export const N_LINES_MAX = ${schema.n_lines_max};`,
    '/** Kernel and panel keep so many collectives of ranks. */',
    `export const N_COLLECTIVES_MAX = ${schema.n_collectives_max};\n`,
    '/** The format of `.cellmesh` files, and the columns of their tables. */',
    `export const RECORDING = ${literal(recording)} as const;\n`,
    `/** A task's state. Put objects are born finished. */\n${enumeration('State', schema.states)}`,
    `export const N_STATES = ${Object.keys(schema.states).length};\n`,
    `/** What has been decided of a trial. */\n${enumeration('TrialState', schema.trial_states)}`,
    `/** What a row is. */\n${enumeration('Kind', schema.kinds)}`,
    ...words.map(
      ([name, each]) =>
        `export const ${listOf(name)} = ${literal(each)} as const;\nexport type ${name} = (typeof ${listOf(name)})[number];\n`
    ),
    ...Object.entries(written).map(([name, definition]) => interfaceOf(name, definition)),
    interfaceOf('GraphHeader', header),
    arraysType('GraphArrays', 'The binary buffers of one graph message.', arrays),
    arraysType('TrialArrays', 'The binary buffers of one message of trials.', trialArrays),
    arraysType('LearningArrays', 'The binary buffers of one message of points of a run of learning.', learningArrays),
    `export interface GraphMessage { header: GraphHeader; arrays: GraphArrays }\n`,
    `/** What the panel asks. */\nexport type Request =\n${requests.join('\n')};\n`
  ].join('\n');

  const validators = [
    `import { type Buffer, ${CHECKS.join(', ')} } from './check';`,
    `import { ${[
      ...words.map(([name]) => listOf(name)),
      ...['GraphArrays', 'GraphHeader', 'LearningArrays', 'TrialArrays', ...Object.keys(written)].map(
        name => `type ${name}`
      )
    ]
      .sort((a, b) => collator.compare(a.replace('type ', ''), b.replace('type ', '')))
      .join(', ')} } from './messages';\n`,
    ...Object.entries(written).map(([name, definition]) => validatorOf(name, definition)),
    validatorOf('GraphHeader', header),
    ...arraysDecoder(
      'decodeArrays',
      'GraphHeader',
      'GraphArrays',
      'The buffers of a graph message, as its header announces them.',
      arrays
    ),
    ...arraysDecoder(
      'decodeTrialArrays',
      'Trials',
      'TrialArrays',
      'The buffers of a message of trials, as its header announces them.',
      trialArrays
    ),
    ...arraysDecoder(
      'decodeLearningArrays',
      'LearningPoints',
      'LearningArrays',
      'The buffers of a message of points, as its header announces them.',
      learningArrays
    )
  ].join('\n');

  const style = { ...(await resolveConfig(here('src/protocol/messages.ts'))), parser: 'typescript' };
  return {
    [here('src/protocol/messages.ts')]: await format(HEAD + messages, style),
    [here('src/protocol/validators.ts')]: await format(HEAD + validators, style)
  };
}

if (process.argv[1] === here('generate.mjs')) {
  for (const [path, text] of Object.entries(await generated())) {
    if (!process.argv.includes('--check')) {
      await writeFile(path, text);
    } else if ((await readFile(path, 'utf8')) !== text) {
      console.error(`${path} is not what schema.json says: npm run generate`);
      process.exitCode = 1;
    }
  }
}
