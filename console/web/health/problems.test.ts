import t from 'tap'
import { describeProblems } from './problems.ts'

t.test('a process or store that does not answer is said to, with the command that shows its log', async (t) => {
  const found = describeProblems({ stuck: ['pipeline: no answer from http://127.0.0.1:8002', 'nats: no answer', 'ingest: spool'], behind: [] })

  t.match(found, [
    { what: 'The pipeline process at http://127.0.0.1:8002 does not answer.', command: 'npx millrace logs pipeline' },
    { what: 'NATS does not answer.', command: 'npx millrace logs nats-server' },
    { what: 'ingest: spool is stuck.', command: 'npx millrace logs ingest' }
  ])
})

t.test('what has old work comes after what is stuck', async (t) => {
  const found = describeProblems({ stuck: ['ingest: schemas (differ between processes: a; b)'], behind: [{ part: 'pipeline: live.0', lagSeconds: 40 }] })

  t.same(found.map(({ what }) => what), ['ingest: schemas (differ between processes: a; b) is stuck.', 'pipeline: live.0 is behind by 40 s.'])
})
