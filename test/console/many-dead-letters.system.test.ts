/** Very many dead letters in the console: a page of them at a time, and an answer within seconds. */
import { jetstreamManager } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import t from 'tap'
import { deadLetterHeaders } from '../../schema/wire/dead-letter-message.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { DEAD_LETTER_STREAM, deadLetterSubject } from '../../schema/wire/streams.ts'
import type { Stack } from '../start-stack.ts'
import { startTestNats } from '../support/test-processes.ts'
import { waitFor } from '../support/wait-for.ts'
import { openConsole } from './open-console.ts'

/** `npm run test:long` for the larger number. */
const LETTERS = process.env.MILLRACE_TEST_LONG === '1' ? 100_000 : 20_000
const inWords = (count: number): string => count.toLocaleString('en')
/** Sent before the server is asked whether it has read them. */
const AT_ONCE = 2000

/**
 * Nine of ten are of one group, the others of 300 groups. They are published without waiting for each acknowledgement;
 * that all came is counted.
 */
async function plantDeadLetters (stack: Stack): Promise<void> {
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
  const body = Buffer.from('{"plan":"wrong"}')
  for (let number = 0; number < LETTERS; number++) {
    const isRare = number % 10 === 0
    const about = {
      stage: isRare ? 'persons' : 'writer', reason: isRare ? 'invalid_update' : 'refused',
      error: 'no such plan', errorCode: 117, subject: 'events.live.0', sequence: number + 1, project: 1,
      event: isRare ? `event ${number / 10 % 300}` : 'order paid'
    } as const
    const message = headers()
    for (const [name, value] of Object.entries(deadLetterHeaders(about))) message.set(name, value)
    connection.publish(deadLetterSubject(about.stage, about.reason), body, { headers: message })
    if (number % AT_ONCE === AT_ONCE - 1) await connection.flush()
  }
  const { streams } = await jetstreamManager(connection)
  const count = async (): Promise<number> => (await streams.info(DEAD_LETTER_STREAM)).state.messages
  await waitFor(async () => await count() === LETTERS, { everyMs: 500 })
  await connection.close()
}

t.test(`${inWords(LETTERS)} dead letters in the console`, async (t) => {
  // The one of the stack flushes each message to the disk, which takes a minute for this many.
  const { url } = await startTestNats(t)
  const { stack, open } = await openConsole(t, { NATS_URL: url })
  const planting = performance.now()
  await plantDeadLetters(stack)
  t.comment(`planted in ${Math.round(performance.now() - planting)} ms`)
  const { page, problems } = await open('/projects/1/dead-letters')
  const rows = async (): Promise<number> => await page.locator('tbody tr').count()

  await page.getByRole('button', { name: `Replay all ${inWords(LETTERS)}` }).waitFor()
  t.equal(await rows(), 50)
  await page.getByText('1 to 50 of 301').waitFor()
  t.match(await page.locator('tbody tr').first().innerText(), new RegExp(`order paid[\\s\\S]*${inWords(LETTERS * 0.9)}`), 'the largest group is the first')

  await page.getByLabel('Stage').selectOption('persons')
  await page.getByRole('button', { name: `Replay all ${inWords(LETTERS / 10)}` }).waitFor()
  await page.getByLabel('Stage').selectOption('')
  await page.getByRole('button', { name: `Replay all ${inWords(LETTERS)}` }).waitFor()

  await page.getByRole('link', { name: 'order paid' }).click()
  await page.getByText(`1 to 50 of ${inWords(LETTERS * 0.9)}`).waitFor()
  t.equal(await rows(), 50)
  await page.getByRole('button', { name: 'Next' }).click()
  await page.getByText(`51 to 100 of ${inWords(LETTERS * 0.9)}`).waitFor()
  t.equal(await rows(), 50)
  await page.locator('tbody').getByRole('link').first().click()
  await page.getByText('"plan": "wrong"').waitFor()
  t.ok(await page.evaluate(() => (globalThis as any).document.querySelectorAll('*').length) < 2000, 'never more than a page in the browser')
  t.same(problems, [])
})
