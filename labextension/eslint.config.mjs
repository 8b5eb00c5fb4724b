// The rules of `npm run lint` for the front end's sources.
import js from '@eslint/js';
import hooks from 'eslint-plugin-react-hooks';
import sort from 'eslint-plugin-simple-import-sort';
import tseslint from 'typescript-eslint';

/** Lines of at most 120 columns: prettier does not wrap comments and strings. A text to translate is one literal. */
const columns = {
  create: context => ({
    Program() {
      context.sourceCode.lines.forEach((line, i) => {
        if (line.length > 120 && !/^\s*(['`]).*\1[,;]?$/.test(line)) {
          context.report({ loc: { line: i + 1, column: 120 }, message: `a line of ${line.length} columns` });
        }
      });
    }
  })
};

/** What the pure folders never touch: the page, clocks, chance, the network. */
const IMPURE = [
  ...['document', 'window', 'navigator', 'getComputedStyle', 'matchMedia', 'localStorage', 'sessionStorage'],
  ...['performance', 'Date', 'setTimeout', 'setInterval', 'requestAnimationFrame', 'crypto', 'fetch']
];

export default tseslint.config(
  { ignores: ['lib/**', 'built/**'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  { plugins: { house: { rules: { columns } } }, rules: { 'house/columns': 'error' } },
  { plugins: { sort }, rules: { 'sort/imports': ['error', { groups: [['^[^.]', '^\\.']] }] } },
  { files: ['**/*.mjs'], languageOptions: { globals: { console: 'readonly', process: 'readonly', URL: 'readonly' } } },
  {
    files: ['**/*.{ts,tsx}'],
    extends: [tseslint.configs.strictTypeChecked],
    plugins: { 'react-hooks': hooks },
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Not `exhaustive-deps`: the graph is one object that changes in place. An effect depends on its version, which
      // the rule takes for superfluous.
      'react-hooks/rules-of-hooks': 'error',
      // Rows are indices into columns: `noUncheckedIndexedAccess` has each `column[row]!` written out, which is enough.
      '@typescript-eslint/no-non-null-assertion': 'off',
      // An async function without `await` turns what it throws into a rejection, as its interface promises.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { varsIgnorePattern: '^_$', argsIgnorePattern: '^_$' }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/prefer-promise-reject-errors': ['error', { allowThrowingUnknown: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }]
    }
  },
  {
    files: ['src/{protocol,i18n,model,layout,draw}/**', 'src/panels/graph/sight.ts'],
    rules: {
      'no-restricted-globals': ['error', ...IMPURE.map(name => ({ name, message: 'This folder is pure.' }))],
      'no-restricted-properties': ['error', { object: 'Math', property: 'random', message: 'This folder is pure.' }],
      'no-restricted-imports': ['error', { patterns: [{ regex: '^[^.]', message: 'This folder is pure.' }] }]
    }
  },
  {
    // Lumino's signals take a method and its object; a mock's method is only looked at.
    files: ['src/lab/**', 'src/__tests__/**'],
    rules: { '@typescript-eslint/unbound-method': 'off' }
  }
);
