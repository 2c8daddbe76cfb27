import { pino } from 'pino'
import t from 'tap'
import { waitFor } from '../test/support/wait-for.ts'
import { createRepeatedLinesHook } from './repeated-lines.ts'

const WINDOW_MS = 20

interface Written {
  msg: string
  repeated?: number
  since?: string
}

function createLines (now: () => number = Date.now): { logger: pino.Logger, lines: Written[] } {
  const lines: Written[] = []
  const logger = pino({ hooks: { logMethod: createRepeatedLinesHook(now, WINDOW_MS) } },
    { write: (line) => { lines.push(JSON.parse(line) as Written) } })
  return { logger, lines }
}

t.test('says after each window how often a line came, and is quiet when it stopped', async (t) => {
  const { logger, lines } = createLines(() => 0)

  for (let i = 0; i < 5; i++) logger.warn('nats is unavailable')
  await waitFor(() => lines.length === 2)
  logger.warn('nats is unavailable')
  await waitFor(() => lines.length === 3)

  t.match(lines, [
    { msg: 'nats is unavailable' },
    { msg: 'nats is unavailable (repeated 4 times)', repeated: 4, since: '1970-01-01T00:00:00.000Z' },
    { msg: 'nats is unavailable (repeated 1 time)', repeated: 1 }
  ])
})

t.test('a line is new again after a window without it', async (t) => {
  const { logger, lines } = createLines()

  logger.warn('nats is unavailable')
  await waitFor(() => {
    logger.warn('nats is unavailable')
    // Written again with its own text, not as a count.
    return lines.filter(({ repeated }) => repeated === undefined).length === 2
  }, { everyMs: WINDOW_MS * 20 })

  t.equal(lines.at(-1)!.msg, 'nats is unavailable')
})

t.test('other subjects, codes, levels and messages are other lines', async (t) => {
  const { logger, lines } = createLines()
  const [refused, reset] = ['ECONNREFUSED', 'ECONNRESET'].map((code) => Object.assign(new Error('no'), { code }))

  for (const round of [1, 2]) {
    for (const partition of ['live.0', 'live.1']) logger.warn({ partition, round }, 'waits')
    for (const err of [refused, reset]) logger.warn({ err, round }, 'waits')
    logger.error({ round }, 'waits')
    logger.error(new RangeError('beyond'))
  }

  t.equal(lines.length, 6)
})

t.test('remembers a thousand lines at most, and counts of what it forgets are written', async (t) => {
  const { logger, lines } = createLines()

  logger.error({ file: 'first' }, 'damaged')
  logger.error({ file: 'first' }, 'damaged')
  for (let i = 0; i < 1000; i++) logger.error({ file: String(i) }, 'damaged')

  t.equal(lines.length, 1002)
  t.match(lines.find(({ repeated }) => repeated === 1), { file: 'first' })
})
