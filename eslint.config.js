import neostandard from 'neostandard'
import tseslint from 'typescript-eslint'

/**
 * The import direction of the house: schema <- platform <- {ingest, pipeline, api}. The three stages never import
 * each other, in tests neither; only `deploy/`, `cli/`, `bench/` and `test/` may compose them.
 */
const stages = ['ingest', 'pipeline', 'api']
const outside = ['deploy', 'cli', 'bench']
const forbid = (folders) => ({
  'no-restricted-imports': ['error', { patterns: folders.map((folder) => ({ group: [`**/${folder}/**`], message: 'Imports go one way: schema <- platform <- {ingest, pipeline, api}.' })) }]
})

export default [
  ...neostandard({ ts: true, ignores: ['node_modules', '.tap', '.millrace', '**/*.generated.*'] }),
  // Tables of data read better with one entry a line than with one property a line.
  { rules: { '@stylistic/object-property-newline': 'off' } },
  // `void promise` says that nobody waits for it on purpose; the pair of no-floating-promises.
  { rules: { 'no-void': ['error', { allowAsStatement: true }] } },
  { rules: { '@stylistic/max-len': ['error', { code: 120, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true, ignoreUrls: true }] } },
  {
    files: ['**/*.ts'],
    plugins: { '@typescript-eslint': tseslint.plugin },
    languageOptions: { parser: tseslint.parser, parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }]
    }
  },
  { files: ['schema/**/*.ts'], rules: forbid(['platform', ...stages, ...outside]) },
  { files: ['platform/**/*.ts'], rules: forbid([...stages, ...outside]) },
  ...stages.map((stage) => ({
    files: [`${stage}/**/*.ts`],
    rules: forbid([...stages.filter((other) => other !== stage), ...outside])
  })),
  // tap reports each test itself; its returned promise is collected by the runner.
  { files: ['**/*.test.ts'], rules: { '@typescript-eslint/no-floating-promises': 'off' } }
]
