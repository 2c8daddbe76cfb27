import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'

const ROOT = path.join(import.meta.dirname, '..')
const FOLDERS = ['api', 'cli', 'console', 'deploy', 'embedded', 'engines', 'ingest', 'pipeline', 'platform', 'schema']

/** Folders of one or two source files, each with the reason why they are not in their parent. */
const SMALL_FOLDERS: Record<string, string> = {
  'ingest/browser-sdk': 'the scripts that pages load, apart from the way of an event',
  deploy: 'the generators of the settings and of the package stand beside what they write; the rest is for servers',
  'pipeline/events/insert': 'the INSERT and what may be repeated of it, apart from the session that decides when',
  api: 'the process and its routes; a subject is a folder',
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
