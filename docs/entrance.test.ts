import { readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { parse } from 'yaml'

const ROOT = path.join(import.meta.dirname, '..')

function read (file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8')
}

/** Lines of a shell block, without their comments. */
function commandsOf (block: string): string[] {
  return block.split('\n').map((line) => line.replace(/#.*$/, '').trim()).filter((line) => line !== '')
}

interface Workflow {
  jobs: Record<string, { steps: { uses?: string, run?: string }[] }>
}

t.test('the README fits two pages and begins with two commands, the second of which is what .ci/run runs', async (t) => {
  const readme = read('README.md')
  const block = /^```sh\n(.*?)^```/ms.exec(readme)

  t.same(commandsOf(block?.[1] ?? ''), ['npm install && npm start', 'npm install && npm test'])
  t.ok(readme.slice(0, block?.index).split('\n').length < 10, 'they are at the top')
  t.ok(readme.split('\n').length < 150, `${readme.split('\n').length} lines`)
  t.match(read('.ci/run'), /^npm install .*^npm test /ms)
})

t.test('the workflow of a public CI runs .ci/run, with every action at a version', async (t) => {
  const { jobs } = parse(read('.github/workflows/ci.yaml')) as Workflow
  const steps = Object.values(jobs).flatMap((job) => job.steps)

  t.ok(steps.some(({ run }) => run === 'bash .ci/run'))
  t.same(steps.flatMap(({ uses }) => uses ?? []).filter((action) => !/^[\w-]+\/[\w-]+@v\d+/.test(action)), [])
})

t.test('the glossary explains every word once', async (t) => {
  const [entries = ''] = read('docs/reference/glossary.md').split('\n## Older names')
  const words = [...entries.matchAll(/^\| (.+?) \| .+ \|$/gm)].flatMap(([, cell = '']) => cell.split(', ')).filter((word) => word !== 'word')

  t.ok(words.length > 40)
  t.same(words.filter((word, index) => words.indexOf(word) !== index), [])
})
