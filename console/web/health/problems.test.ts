import t from 'tap'
import { describeProblems } from './problems.ts'

t.test('a process or store that does not answer is said to, with the command that shows its log', async (t) => {
  const found = describeProblems({ stuck: ['pipeline: no answer from http://127.0.0.1:8002', 'nats: no answer', 'ingest: spool'], behind: [], pipeline: { deadLetters: 0 } })

  t.match(found, [
    { what: 'The pipeline process at http://127.0.0.1:8002 does not answer.', command: 'npx millrace logs pipeline' },
    { what: 'NATS does not answer.', command: 'npx millrace logs nats-server' },
    { what: 'ingest: spool is stuck.', command: 'npx millrace logs ingest' }
  ])
})

t.test('what has old work comes after what is stuck', async (t) => {
  const found = describeProblems({ stuck: ['ingest: schemas (differ between processes: a; b)'], behind: [{ part: 'pipeline: live.0', lagSeconds: 40 }], pipeline: { deadLetters: null } })

  t.same(found.map(({ what }) => what), ['ingest: schemas (differ between processes: a; b) is stuck.', 'pipeline: live.0 is behind by 40 s.'])
})

t.test('dead letters that wait come last, with the screen that has them', async (t) => {
  const find = (deadLetters: number): unknown => describeProblems({ stuck: ['ingest: spool'], behind: [], pipeline: { deadLetters } }).at(-1)

  t.match(find(41), { what: '41 dead letters wait.', screen: 'dead-letters' })
  t.match(find(1), { what: '1 dead letter waits.', screen: 'dead-letters' })
  t.match(find(0), { what: 'ingest: spool is stuck.' })
})
