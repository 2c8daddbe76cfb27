import t from 'tap'
import { formatLogLine, timeOf } from './log-lines.ts'

const line = (fields: object): string => JSON.stringify({ level: 40, time: Date.UTC(2026, 0, 2, 14, 3, 7, 123), component: 'pipeline', pid: 1, ...fields })

t.test('a line of JSON is one line for people, with its fields', async (t) => {
  t.equal(formatLogLine(line({ msg: 'an insert failed', partition: 'live.0', rows: 3 })),
    '14:03:07.123 WARN  pipeline   an insert failed  partition=live.0  rows=3')
  t.equal(timeOf(line({})), Date.UTC(2026, 0, 2, 14, 3, 7, 123))
})

t.test('the stack of an error stands below, and colours are for terminals that want them', async (t) => {
  t.equal(formatLogLine(line({ level: 50, msg: 'failed', err: { message: 'no', stack: 'Error: no\n    at a.ts:1' } }), { isColored: true }),
    '14:03:07.123 \u001b[31mERROR\u001b[0m pipeline   failed\n  Error: no\n      at a.ts:1')
  t.match(formatLogLine(line({ msg: 'failed', err: { message: 'away', code: 'ECONNREFUSED' } })), /failed\n {2}away ECONNREFUSED$/)
})

t.test('what is no JSON keeps its text, and control characters do not reach a terminal', async (t) => {
  t.equal(formatLogLine('2026-01-02 LOG:  started', { source: 'postgres' }), 'postgres   2026-01-02 LOG:  started')
  t.equal(formatLogLine('{"half'), '{"half')
  t.equal(timeOf('plain'), undefined)
  t.notMatch(formatLogLine(line({ msg: 'a\u001b[2Jb\nc', name: '\u0007' })), /[\u0000-\u0008\u001b\n]/) // eslint-disable-line no-control-regex
})
