import t from 'tap'
import { resolveRange } from './calendar.ts'
import { compileQuestion } from './compile-question.ts'
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
