import neostandard from 'neostandard'
import tseslint from 'typescript-eslint'

/**
 * The import direction of the house: engines <- schema <- platform <- {ingest, pipeline, api}. The three tiers never
 * import each other, in tests neither; only `embedded/`, `cli/`, `bench/` and `test/` may compose them.
 */
const stages = ['ingest', 'pipeline', 'api']
const outside = ['deploy', 'embedded', 'cli', 'bench']
const mayNotImport = {
  engines: ['schema', 'platform', 'console', ...stages, ...outside],
  schema: ['platform', 'console', ...stages, ...outside],
  platform: ['console', ...stages, ...outside],
  console: [...stages, ...outside],
  ...Object.fromEntries(stages.map((stage) => [stage, [...stages.filter((other) => other !== stage), ...outside]]))
}
const oneWay = (folders) => ({
  group: folders.map((folder) => `**/${folder}/**`),
  message: 'Imports go one way: engines <- schema <- platform <- {ingest, pipeline, api}; the API composes the console.'
})

/** What only tests and benchmarks run; everything else is production code, and imports nothing of it. */
const notProduction = ['**/*.test.ts', '**/*.bench.ts', '**/testing/**', 'test/**', 'bench/**']
const noTesting = {
  group: ['**/testing/**', '**/test/**', '**/bench/**', '**/*.test.ts', '**/*.bench.ts'],
  message: 'Production code imports nothing that only tests and benchmarks use.'
}

/** The package chdb-server knows nothing of Millrace, its tests neither; and it needs chdb alone. */
const serverFolders = ['', '/*', '/*/*'].map((depth, up) => [`chdb-server${depth}`, `^${'\\.\\./'.repeat(up + 1)}`])
const outsideOfServer = (regex) => ({ regex, message: 'chdb-server is a package of its own: it imports nothing outside of itself.' })
/** Everything else has the package by its name. */
const serverByName = { regex: '^\\..*/chdb-server/', message: "Import what the package exports: 'chdb-server', 'chdb-server/sql-lexer', in tests 'chdb-server/testing'." }
const notOfServer = { regex: '^(?!\\.|node:|chdb$)', message: 'chdb-server has one dependency, chdb.' }

const restrictImports = (...patterns) => ({ 'no-restricted-imports': ['error', { patterns: [serverByName, ...patterns] }] })

export default [
  ...neostandard({ ts: true, ignores: ['node_modules', 'dist', '.tap', '.millrace', '**/*.generated.*'] }),
  // What a member had before the wait may be old after it: what changed it meanwhile would be lost.
  {
    rules: {
      'no-restricted-syntax': ['error', ...[
        "AssignmentExpression[left.type='MemberExpression'][operator=/^[-+*|]=$/] > AwaitExpression.right",
        "AssignmentExpression BinaryExpression[left.type='MemberExpression'] > AwaitExpression.right"
      ].map((selector) => ({ selector, message: 'The member is read before the await: await first.' }))]
    }
  },
  // Tables of data read better with one entry a line than with one property a line.
  { rules: { '@stylistic/object-property-newline': 'off' } },
  // `void promise` says that nobody waits for it on purpose; the pair of no-floating-promises.
  { rules: { 'no-void': ['error', { allowAsStatement: true }] } },
  { rules: { '@stylistic/max-len': ['error', { code: 120, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true, ignoreUrls: true }] } },
  // Markup nests deeply, and a row of a table is read as a line. A handler may be passed on under its own name.
  {
    files: ['**/*.tsx'],
    rules: {
      '@stylistic/max-len': ['error', { code: 160, ignoreStrings: true, ignoreTemplateLiterals: true }],
      'react/jsx-handler-names': 'off'
    }
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    plugins: { '@typescript-eslint': tseslint.plugin },
    languageOptions: { parser: tseslint.parser },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      // `import { type A }` loads the module, `import type { A }` does not.
      '@typescript-eslint/no-import-type-side-effects': 'error'
    }
  },
  { files: ['**/*.ts', '**/*.tsx'], rules: restrictImports() },
  { files: ['**/*.ts', '**/*.tsx'], ignores: notProduction, rules: restrictImports(noTesting) },
  // Of several entries for a file the last one counts, so that production code has both patterns.
  ...Object.entries(mayNotImport).flatMap(([folder, others]) => [
    { files: [`${folder}/**/*.ts`, `${folder}/**/*.tsx`], rules: restrictImports(oneWay(others)) },
    { files: [`${folder}/**/*.ts`, `${folder}/**/*.tsx`], ignores: notProduction, rules: restrictImports(oneWay(others), noTesting) }
  ]),
  ...serverFolders.flatMap(([folder, outside]) => [
    { files: [`${folder}/*.ts`], rules: restrictImports(outsideOfServer(outside)) },
    { files: [`${folder}/*.ts`], ignores: notProduction, rules: restrictImports(outsideOfServer(outside), notOfServer, noTesting) }
  ])
]
