import t from 'tap'
import { findCircles, listFiles, measureHouse } from './house.ts'

t.test('files that import each other are one circle, whatever else they import', async (t) => {
  const imports = new Map([
    ['a', ['b', 'd']], ['b', ['c']], ['c', ['a', 'outside']], ['d', ['e']], ['e', []], ['f', ['g']], ['g', ['f', 'a']]
  ])

  t.same(findCircles(imports).map((circle) => circle.sort()), [['a', 'b', 'c'], ['f', 'g']])
})

t.test('counts lines, circles of types, names, functions and assertions of sources, not of tests', async (t) => {
  const long = `function long () {\n${'  1\n'.repeat(80)}}\n`
  const files = {
    platform: { 'one.ts': "import type { B } from '../api/b.ts'\nexport const one = x! as B\n", 'same.ts': long },
    api: {
      'b.ts': "import { one } from '../platform/one.ts'\nexport type B = typeof one\n",
      'same.ts': "export const list = ['a'] as const\n",
      'b.test.ts': '// There are none.\nconst a = b! as C\n',
      'c.generated.ts': '// There are none.\n',
      'read.md': 'By now, what is known of it is told.\n',
      'app.ts': '',
      'table.sql': 'SELECT 1\n'
    },
    ingest: { 'app.ts': '' }
  }
  const names = Object.entries(files).flatMap(([folder, inside]) => Object.keys(inside).map((name) => `${folder}/${name}`))

  t.match(measureHouse(t.testdir(files), names), {
    lines: 2 + 82 + 2 + 1 + 1,
    platformLines: 84,
    trackedFiles: 10,
    circles: [['platform/one.ts', 'api/b.ts']],
    repeatedNames: ['same.ts: platform/same.ts api/same.ts'],
    longFunctions: ['platform/same.ts:1 long'],
    assertions: 1,
    casts: 1,
    phrases: ['api/b.test.ts:1 // There are none.', 'api/read.md:1 By now, what is known of it is told.']
  })
})

t.test('lists what git tracks, without git', async (t) => {
  const root = t.testdir({
    '.gitignore': '# made here\nnode_modules/\n*.log\nbench/results/*-quick.json\n',
    '.git': 'gitdir: elsewhere',
    '.ci': { run: '' },
    node_modules: { a: { 'index.js': '' } },
    api: { 'app.ts': '', 'app.log': '', node_modules: { 'b.js': '' } },
    bench: { results: { 'a.json': '', 'a-quick.json': '' } }
  })

  t.same(listFiles(root).sort(), ['api/app.ts', 'bench/results/a.json'])
})
