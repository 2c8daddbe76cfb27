import { readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { readBaseline } from './read-baseline.ts'

const RESULTS = path.join(import.meta.dirname, 'results')

t.test('reads the results of the full runs that are kept here', async (t) => {
  const names = (await readdir(RESULTS)).filter((name) => !name.endsWith('-quick.json'))
  t.ok(names.length > 0)
  for (const name of names) {
    const figures = await readBaseline(path.join(RESULTS, name), { isQuick: false })
    t.ok(figures.size > 0, name)
  }
})

t.test('refuses to compare a quick run with a full one, and what is no result', async (t) => {
  const folder = t.testdir()
  const [quick, full, other] = ['quick.json', 'full.json', 'other.json'].map((name) => path.join(folder, name))
  await writeFile(quick!, JSON.stringify({ isQuick: true, figures: {} }))
  await writeFile(full!, JSON.stringify({ figures: {} }))
  await writeFile(other!, '{}')

  await t.rejects(readBaseline(quick!, { isQuick: false }), /of a quick run/)
  await t.rejects(readBaseline(full!, { isQuick: true }), /of a full run/)
  await t.rejects(readBaseline(other!, { isQuick: true }), /no figures/)
})
