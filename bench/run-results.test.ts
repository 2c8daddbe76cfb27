import { readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { compareResults, type Comparison, readBaseline, renderComparisons } from './run-results.ts'
import type { Figure } from './question.ts'

const RESULTS = path.join(import.meta.dirname, 'results')

t.test('reads the results of the full runs that are kept here', async (t) => {
  const names = (await readdir(RESULTS)).filter((name) => !name.endsWith('-quick.json'))
  t.ok(names.length > 0)
  for (const name of names) {
    const figures = await readBaseline(path.join(RESULTS, name), { isQuick: false })
    t.ok(figures.size > 0, name)
  }
})

t.test('refuses to compare a quick run with a full one, and files without results', async (t) => {
  const folder = t.testdir()
  const [quick, full, other] = ['quick.json', 'full.json', 'other.json'].map((name) => path.join(folder, name))
  await writeFile(quick!, JSON.stringify({ isQuick: true, figures: {} }))
  await writeFile(full!, JSON.stringify({ figures: {} }))
  await writeFile(other!, '{}')

  await t.rejects(readBaseline(quick!, { isQuick: false }), /of a quick run/)
  await t.rejects(readBaseline(full!, { isQuick: true }), /of a full run/)
  await t.rejects(readBaseline(other!, { isQuick: true }), /no figures/)
})

function compare (before: Figure, now: Figure, isSingle = false): Comparison[] {
  return compareResults(new Map([['single/requests', before]]), new Map([['single/requests', now]]), { isSingle })
}

function figure (value: number, reference: number, target?: Figure['target']): Figure {
  return { name: 'x', value, unit: 'us', reference: { name: 'y', value: reference }, ...(target && { target }) }
}

t.test('a run on a machine of half the speed is alike', async (t) => {
  t.match(compare(figure(20, 10, { atMost: 3 }), figure(40, 20, { atMost: 3 })), [{ before: 2, now: 2, verdict: 'alike' }])
})

t.test('a ratio that grew by half is worse when less is better, and better when more is', async (t) => {
  t.match(compare(figure(20, 10, { atMost: 3 }), figure(30, 10, { atMost: 3 })), [{ before: 2, now: 3, verdict: 'worse' }])
  t.match(compare(figure(20, 10, { atLeast: 3 }), figure(30, 10, { atLeast: 3 })), [{ verdict: 'better' }])
})

t.test('a ratio that fell by half is worse when more is better, and better when less is', async (t) => {
  t.match(compare(figure(8, 10, { atLeast: 0.8 }), figure(4, 10, { atLeast: 0.8 })), [{ verdict: 'worse' }])
  t.match(compare(figure(8, 10, { atMost: 0.8 }), figure(4, 10, { atMost: 0.8 })), [{ verdict: 'better' }])
})

t.test('what two runs on one machine differ by is alike; single measurements differ by more', async (t) => {
  const [before, now] = [figure(20, 10, { atMost: 3 }), figure(28, 10, { atMost: 3 })]

  t.match(compare(before, figure(23, 10, { atMost: 3 })), [{ verdict: 'alike' }])
  t.match(compare(before, now), [{ verdict: 'worse' }])
  t.match(compare(before, now, true), [{ verdict: 'alike' }])
  t.match(compare(before, figure(41, 10, { atMost: 3 }), true), [{ verdict: 'worse' }])
})

t.test('figures without a target or without a reference are not compared', async (t) => {
  const { reference, ...alone } = figure(8, 10, { atLeast: 0.8 })

  t.same(compare(figure(8, 10), figure(1, 10)), [])
  t.same(compare(alone, { ...alone, value: 1 }), [])
})

t.test('each ratio is printed with its two values, whether it is worse or not', async (t) => {
  t.equal(renderComparisons([
    { name: 'batch/cpu', before: 2, now: 3, verdict: 'worse' },
    { name: 'single/requests', before: 0.4, now: 0.412, verdict: 'alike' }
  ]), 'worse   batch/cpu        was 2.00, is 3.00\nalike   single/requests  was 0.40, is 0.41\n')
})
