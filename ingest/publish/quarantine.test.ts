import t from 'tap'
import { MillraceError } from '../../engines/errors.ts'
import type { OutgoingMessage } from './acknowledged-publisher.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { countStoredLetters, createPublishLetters } from './quarantine.ts'

const letter: OutgoingMessage = {
  subject: 'dead.schema.not_met.7.11',
  id: 'dead:schema-1',
  headers: { 'Millrace-Rows': '1', 'Millrace-Stage': 'schema', 'Millrace-Subject': 'events.live.3', 'Millrace-Project': '7', 'Millrace-Event': 'e' },
  payload: Buffer.from('frame')
}
const event = { ...letter, subject: 'events.live.3', headers: { 'Millrace-Rows': '1' } }
const FULL = new MillraceError('MILLRACE_STREAM_REFUSED', 'maximum bytes exceeded', { details: { errCode: 10077 } })

/** Publishes a letter and an event. @returns what the streams got, and which letters were stored as events. */
async function publishBoth (
  hasRoom: () => Promise<boolean>, refusal?: Error
): Promise<{ sent: OutgoingMessage[], stored: OutgoingMessage[] }> {
  const sent: OutgoingMessage[] = []
  const stored: OutgoingMessage[] = []
  const publish = createPublishLetters({
    hasRoom,
    publish: async (message) => {
      if (refusal !== undefined && message.subject.startsWith('dead.')) throw refusal
      sent.push(message)
    },
    onStored: (message) => stored.push(message)
  })
  await publish(letter)
  await publish({ ...event, id: 'other' })
  return { sent, stored }
}

t.test('an event for whose letter there is no room is published as a replay would', async (t) => {
  const other = { ...event, id: 'other' }
  t.same(await publishBoth(async () => true), { sent: [letter, other], stored: [] })
  t.same(await publishBoth(async () => false), { sent: [event, other], stored: [letter] })
  t.same(await publishBoth(async () => true, FULL), { sent: [event, other], stored: [letter] })
  t.same(await publishBoth(async () => { throw new Error('NATS is silent') }), { sent: [letter, other], stored: [] })
})

t.test('an event that is stored for lack of room counts against the quota of its project', async (t) => {
  const spent: number[][] = []
  const spend = (...event: [projectId: number, events: number]): unknown => spent.push(event)

  countStoredLetters(createMetrics('ingest'), () => null, spend)(letter)

  t.same(spent, [[7, 1]])
})

t.test('of a stream that does not answer nothing is concluded', async (t) => {
  const silent = new MillraceError('MILLRACE_STREAM_TIMEOUT', 'no acknowledgement', { action: 'retry' })
  await t.rejects(publishBoth(async () => true, silent), silent)
})
