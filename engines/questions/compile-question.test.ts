import t from 'tap'
import { resolveRange } from './calendar.ts'
import { compilePersons, compileQuestion } from './compile-question.ts'
import { readQuestion } from './read-question.ts'

void t.test('copies of events are looked for only where they would count', async (t) => {
  const paid = { event: 'order paid' }
  const search = { event: 'search' }
  const looks: Array<[definition: object, looksForCopies: boolean]> = [
    [{ kind: 'trend', series: [{ ...paid, measure: 'people' }, { measure: 'people' }] }, false],
    [{ kind: 'trend', series: [{ ...paid, measure: 'people' }, { ...paid, measure: 'events' }] }, true],
    [{ kind: 'trend', series: [{ ...paid, measure: 'sum', property: 'amount' }] }, true],
    [{ kind: 'funnel', steps: [search, paid] }, false],
    [{ kind: 'funnel', steps: [search, paid, search] }, true],
    [{ kind: 'funnel', steps: [{}, paid] }, true],
    [{ kind: 'funnel', steps: [search, paid], exclude: [{ event: 'refund' }] }, false],
    [{ kind: 'funnel', steps: [search, paid], exclude: [search] }, true],
    [{ kind: 'paths', from: search }, false],
    [{ kind: 'retention', start: search, returning: {} }, false]
  ]
  for (const [definition, looksForCopies] of looks) {
    const question = readQuestion({ version: 1, ...definition })
    const sql = compileQuestion(question, 1, resolveRange(question, { weekStarts: 'monday', timezone: 'UTC', now: Date.UTC(2026, 2, 5) }))
    t.equal(!sql.endsWith('\nSETTINGS final = 0'), looksForCopies, JSON.stringify(definition))
  }
})

void t.test('the persons of a series are looked for with the copies that choose the parts of a formula', async (t) => {
  const series = [{ event: 'order paid', measure: 'events' }, { event: 'search', measure: 'people' }]
  const cell = { kind: 'trend', series: 1, isPrevious: false, start: null, tag: 'all' } as const
  const looks: Array<[fields: object, looksForCopies: boolean]> = [
    [{ breakdown: { property: 'plan' } }, false], [{ formula: 'A / B' }, false], [{ formula: 'A / B', breakdown: { property: 'plan' } }, true]
  ]
  for (const [fields, looksForCopies] of looks) {
    const question = readQuestion({ version: 1, kind: 'trend', series, ...fields })
    const range = resolveRange(question, { weekStarts: 'monday', timezone: 'UTC', now: Date.UTC(2026, 2, 5) })
    const sql = compilePersons(question, cell, { projectId: 1, range, limit: 10 })
    t.equal(!sql.endsWith('\nSETTINGS final = 0'), looksForCopies, JSON.stringify(fields))
  }
})
