/**
 * Draws the pictures of `docs/console.md` from a running system, with events and dead letters made for it:
 *
 *     node test/console/draw-screens.ts
 */
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { openBrowser } from '../sdk/open-page.ts'
import { startStack, type Stack } from '../start-stack.ts'

const IMAGES = path.join(import.meta.dirname, '..', '..', 'docs', 'images')
const NAMES = ['$pageview', 'order paid', 'signed up', 'checkout started', 'search', 'plan changed']
const PICTURE = { width: 1180, height: 700 }
const HOUR_MS = 3_600_000

const stack = await startStack()
const { browser, close } = await openBrowser()
try {
  await plantDeadLetters(stack)
  const sending = new AbortController()
  const sender = sendUntil(stack, sending.signal)
  const page = await browser.newPage({ viewport: PICTURE })
  await page.goto(`${stack.url}/console`)
  await page.getByLabel('Personal API key').fill(stack.personalApiKey)
  await page.keyboard.press('Enter')
  await page.locator('.stages').waitFor()
  await delay(6000)
  await page.screenshot({ path: path.join(IMAGES, 'console-health.png') })
  await page.goto(`${stack.url}/console/projects/1/live`)
  await page.locator('.live tbody tr').nth(12).waitFor()
  await delay(1500)
  await page.screenshot({ path: path.join(IMAGES, 'console-live.png') })
  await page.goto(`${stack.url}/console/projects/1/dead-letters`)
  await page.locator('table').waitFor()
  await page.screenshot({ path: path.join(IMAGES, 'console-dead-letters.png') })
  await page.goto(`${stack.url}/console/projects/1/schemas/${await plantSchema(stack)}`)
  await page.getByRole('button', { name: 'Check the draft' }).click()
  await page.getByRole('region', { name: 'By SDK' }).scrollIntoViewIfNeeded()
  await page.screenshot({ path: path.join(IMAGES, 'console-schema.png') })
  sending.abort()
  await sender
  await page.goto(`${stack.url}/console/projects/1/flags/${await plantFlag(stack)}`)
  await page.getByRole('spinbutton', { name: 'Rollout' }).first().fill('75')
  await page.getByRole('heading', { name: 'What saving changes' }).evaluate((heading: any) => heading.scrollIntoView())
  await page.screenshot({ path: path.join(IMAGES, 'console-flag.png') })
} finally {
  await close()
  await stack.stop()
}

/** Some hundred events a second, so that the stages have something to show. */
async function sendUntil ({ url, projectApiKey }: Stack, signal: AbortSignal): Promise<void> {
  for (let round = 0; !signal.aborted; round++) {
    const batch = Array.from({ length: 40 }, (_, index) => ({
      event: NAMES[(round * index) % NAMES.length], distinct_id: `user ${index}`, properties: { plan: 'pro', amount: index, $lib: 'web', $lib_version: '1.298.0' }
    }))
    await fetch(`${url}/batch/`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: projectApiKey, batch })
    })
    await delay(100)
  }
}

/** A flag that was changed a few times. @returns its id. */
async function plantFlag ({ url, personalApiKey }: Stack): Promise<number> {
  const write = async (method: string, where: string, body: object): Promise<{ id: number }> => {
    const headers = { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' }
    const answer = await fetch(`${url}/api/projects/1/feature_flags/${where}`, { method, headers, body: JSON.stringify(body) })
    return await answer.json() as { id: number }
  }
  const filters = (rollout: number, plans: string[]): object => ({
    groups: plans.map((value) => ({ properties: [{ key: 'plan', type: 'person', operator: 'exact', value }], rollout_percentage: rollout })),
    multivariate: { variants: [{ key: 'control', rollout_percentage: 50 }, { key: 'short', rollout_percentage: 50 }] }
  })
  const { id } = await write('POST', '', { key: 'new-checkout', name: 'The short checkout', filters: filters(20, ['pro']) })
  await write('PATCH', `${id}/`, { filters: filters(50, ['pro', 'team']) })
  await write('PATCH', `${id}/`, { active: false })
  await write('PATCH', `${id}/`, { active: true, evaluation_runtime: 'server' })
  return id
}

/** A schema that some of the sent events do not meet. @returns its id. */
async function plantSchema ({ url, personalApiKey }: Stack): Promise<number> {
  const schema = { required: ['plan', 'amount'], properties: { plan: { enum: ['free', 'pro'] }, amount: { type: 'integer', maximum: 35 } } }
  const answer = await fetch(`${url}/api/projects/1/event_schemas/`, {
    method: 'POST', headers: { authorization: `Bearer ${personalApiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ event: 'order paid', owner: 'shop', mode: 'quarantine', schema })
  })
  return (await answer.json() as { id: number }).id
}

async function plantDeadLetters ({ natsUrl }: Stack): Promise<void> {
  const connection = await connectNats({ url: natsUrl, name: 'pictures', logger: createLogger({ component: 'test', level: 'silent' }) })
  const causes = [
    { stage: 'writer', reason: 'refused', errorCode: 117, event: 'order paid', error: 'Value of column timestamp is out of range', count: 41 },
    { stage: 'persons', reason: 'invalid_update', event: '$identify', error: 'The distinct id "null" is reserved', count: 12 },
    { stage: 'ingest', reason: 'too_large', event: 'export', error: 'The event is larger than a message may be', count: 3 }
  ] as const
  for (const { count, ...cause } of causes) {
    for (let index = 0; index < count; index++) {
      await publishDeadLetter(connection, {
        ...cause, subject: 'events.live.0', sequence: index + 1, project: 1, headers: {}, id: `${cause.event} ${index}`,
        body: Buffer.from(JSON.stringify({ event: cause.event, at: new Date(Date.now() - index * HOUR_MS) }))
      })
    }
  }
  await connection.close()
}
