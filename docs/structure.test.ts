import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { parse } from 'yaml'

const ROOT = path.join(import.meta.dirname, '..')
const FOLDERS = ['api', 'chdb-server', 'cli', 'console', 'deploy', 'embedded', 'engines', 'ingest', 'pipeline', 'platform', 'schema']

/** Folders of one or two source files, each with the reason why they are not in their parent. */
const SMALL_FOLDERS: Record<string, string> = {
  'ingest/browser-sdk': 'the scripts that pages load, apart from the way of an event',
  deploy: 'the generators of the settings and of the package stand beside what they write; the rest is for servers',
  'pipeline/events/insert': 'the INSERT and what may be repeated of it, apart from the session that decides when',
  'api/exports': 'the pipeline exports; the API records what, and answers how far',
  api: 'the process and its routes; a subject is a folder',
  console: 'the types of the API, for the pages and the command line',
  'embedded/nats': 'find the server, start it',
  engines: 'the errors that every engine throws',
  'platform/clickhouse': 'the connection and its errors, for every tier',
  'platform/nats': 'the one place that knows the NATS client, for every tier'
}

/** Source files by path: no tests, nothing that only tests use, nothing generated. */
const sources = new Map(FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.{ts,tsx}`, { cwd: ROOT }))
  .filter((file) => !/\.(test|bench|generated\.d)\.ts$|(^|\/)testing\//.test(file))
  .map((file) => [file, readFileSync(path.join(ROOT, file), 'utf8').split('\n').length - 1]))

t.test('a source file is a subject: at most 300 lines, half of them at least 80', async (t) => {
  const lines = [...sources.values()].sort((a, b) => a - b)

  t.ok(sources.size > 100)
  t.same([...sources].filter(([, count]) => count > 300), [])
  t.ok(lines[Math.floor(lines.length / 2)]! >= 80, `median ${lines[Math.floor(lines.length / 2)]}`)
})

t.test('no source file is named after what it holds only in part', async (t) => {
  t.same([...sources.keys()].filter((file) => /(^|\/)(utils?|helpers?|types|index|common|misc)\.ts$/.test(file)), [])
})

t.test('a folder has three source files, or a reason', async (t) => {
  const folders = Map.groupBy(sources.keys(), (file) => path.dirname(file))
  const small = [...folders].filter(([, files]) => files.length < 3).map(([folder]) => folder)

  t.same(small.filter((folder) => SMALL_FOLDERS[folder] === undefined), [])
})

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

t.test('the README has 100 lines and begins with two commands, the second of which is what .ci/run runs', async (t) => {
  const readme = read('README.md')
  const block = /^```sh\n(.*?)^```/ms.exec(readme)

  t.same(commandsOf(block?.[1] ?? ''), ['npm install && npm start', 'npm install && npm test'])
  t.ok(readme.slice(0, block?.index).split('\n').length < 10, 'they are at the top')
  t.ok(readme.split('\n').length <= 101, `${readme.split('\n').length} lines`)
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
