/**
 * The console in a real browser against the real stack: what an operator does by mouse and by keyboard, in light and
 * dark, narrow and wide, with text of others that tries to be markup.
 */
import { randomUUID } from 'node:crypto'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import t from 'tap'
import { createPersonalKey } from '../../api/keys/personal-keys.ts'
import { encodePayload, makeEvent } from '../../pipeline/testing/publish-events.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ROW_LAYOUT } from '../../schema/event-row.ts'
import { HEADER } from '../../schema/streams.ts'
import { startStackOnSharedStores, type Stack } from '../start-stack.ts'
import { openBrowser } from '../sdk/open-page.ts'
import { waitFor } from '../support/wait-for.ts'

/** Names that would do something if they were not shown as text. */
const HOSTILE = [
  '<img src=x onerror="globalThis.hacked=1">', '"><script>globalThis.hacked=1</script>', "javascript:alert('x')",
  '\u202egnp.exe', 'zero\u200bwidth', '{{constructor.constructor("globalThis.hacked=1")()}}', 'long '.repeat(70)
]

/** The first load may weigh so much, each further screen so much, in compressed bytes. */
const FIRST_LOAD_BYTES = 90_000
const SCREEN_BYTES = 25_000

const SCREENS = ['/health', '/projects/1/live', '/projects/1/find', '/projects/1/dead-letters', '/projects/1/flags', '/projects/1/experiments', '/projects/1/events', '/projects/1/properties']

/** A page that notes what must not happen: errors in its console and requests to other origins. */
interface Watched { page: Page, problems: string[] }

async function open (context: BrowserContext, url: string, path: string): Promise<Watched> {
  const page = await context.newPage()
  const problems: string[] = []
  page.on('console', (message) => { if (message.type() === 'error') problems.push(`${message.text()} ${message.location().url}`) })
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) problems.push(`request to ${request.url()}`)
  })
  await page.goto(`${url}/console${path}`)
  return { page, problems }
}

async function logIn (page: Page, key: string): Promise<void> {
  await page.getByLabel('Personal API key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByRole('navigation').waitFor()
}

/** A context that is logged in: the cookie stays in it. */
async function createContext (browser: Browser, stack: Stack, options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
  const context = await browser.newContext(options)
  const { page } = await open(context, stack.url, '')
  await logIn(page, stack.personalApiKey)
  await page.close()
  return context
}

interface SentEvent { event: string, distinct_id?: string, properties?: object }

async function send (stack: Stack, events: SentEvent[]): Promise<void> {
  const response = await fetch(`${stack.url}/batch/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, batch: events.map((event) => ({ distinct_id: 'ann', ...event })) })
  })
  if (!response.ok) throw new Error(`capture answered ${response.status}`)
}

/** Letters of one cause, one whose body is not JSON, and one event that ClickHouse refused. */
async function plantDeadLetters (stack: Stack): Promise<void> {
  const connection = await connectNats({ url: stack.natsUrl, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
  for (let index = 0; index < 3; index++) {
    await publishDeadLetter(connection, {
      stage: 'persons', reason: 'invalid_update', error: `no such person ${HOSTILE[0]}`, subject: 'persons.0', sequence: index + 1, project: 1,
      event: index < 2 ? HOSTILE[0]! : 'bytes', headers: {}, id: `planted-${index}`,
      body: index < 2 ? Buffer.from(JSON.stringify({ name: HOSTILE[1] })) : Buffer.from([0xff, 0xfe])
    })
  }
  const refused = makeEvent({ event: 'paid', distinct_id: HOSTILE[1]!, properties: '{"plan":"wrong"}' })
  await publishDeadLetter(connection, {
    stage: 'writer', reason: 'refused', error: 'no such plan', subject: 'events.live.0', sequence: 1, project: 1,
    event: refused.event, uuid: refused.uuid, headers: { [HEADER.rows]: '1', [HEADER.layout]: String(ROW_LAYOUT) }, id: 'planted-event',
    body: encodePayload([refused])
  })
  await connection.close()
}

t.test('the console', async (t) => {
  const stack = await startStackOnSharedStores(t)
  const { browser, close } = await openBrowser()
  t.teardown(close)
  await Promise.all([send(stack, [...HOSTILE, 'paid'].map((event) => ({ event, properties: { [event.slice(0, 60)]: 1 } }))), plantDeadLetters(stack)])

  await t.test('the first load is small, needs a login, and a wrong key is told so', async (t) => {
    const context = await browser.newContext()
    const sizes: number[] = []
    context.on('response', (response) => {
      if (response.url().includes('/console/assets/')) sizes.push(Number(response.headers()['content-length']))
    })
    const { page, problems } = await open(context, stack.url, '/projects/1/events')
    await page.getByLabel('Personal API key').fill('phx_wrong')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').getByText('Personal API key is invalid').waitFor()
    // The browser itself logs each answer above 400: the session that was not there, and the key that was wrong.
    t.same(problems.filter((text) => !/status of 401/.test(text)), [])

    await logIn(page, stack.personalApiKey)
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    t.ok(sizes.length > 2)
    const sum = sizes.reduce((total, size) => total + size, 0)
    t.ok(sum > 5000 && sum <= FIRST_LOAD_BYTES + SCREEN_BYTES, `${sum} bytes`)
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('Personal API key').waitFor()
    t.same((await context.cookies()).filter(({ name }) => name === 'millrace_session'), [])
    await context.close()
  })

  await t.test('health tells that everything works, and what passes', async (t) => {
    const context = await createContext(browser, stack)
    const { page, problems } = await open(context, stack.url, '')
    await page.getByText('Everything works').waitFor()
    t.match(page.url(), /\/console\/health$/, 'it is the first screen')
    for (const stage of ['Ingest', 'Spool', 'Stream', 'Pipeline', 'ClickHouse', 'Dead letters']) {
      t.ok(await page.getByRole('heading', { name: new RegExp(`^${stage}`), level: 3 }).isVisible(), stage)
    }
    await waitFor(async () => /accepted since start8/.test(await page.locator('.stage').first().innerText().then((text) => text.replaceAll('\n', ''))))
    t.same(problems, [])
    await context.close()
  })

  await t.test('events are found by a search, and tagged, with the keyboard alone', async (t) => {
    const context = await createContext(browser, stack)
    await waitFor(async () => (await stack.sql`SELECT 1 FROM event_definitions`).length >= HOSTILE.length + 1)
    const { page, problems } = await open(context, stack.url, '/projects/1/events')
    await page.getByText('1 to 8 of 8').waitFor()
    t.equal(await page.evaluate(() => (globalThis as any).hacked), undefined)
    t.ok(await page.getByRole('cell', { name: HOSTILE[0]!, exact: true }).isVisible(), 'markup is shown as it is')
    t.ok(await page.getByRole('cell', { name: '\\u{202e}gnp.exe', exact: true }).isVisible(), 'what cannot be seen is told')

    await page.keyboard.press('Tab')
    t.equal(await page.evaluate(() => (globalThis as any).document.activeElement?.textContent), 'Skip to content')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.type('paid')
    await page.getByText('1 to 1 of 1').waitFor()
    t.match(page.url(), /\?search=paid$/, 'a search has an address')
    for (const key of ['Tab', 'Tab', 'Tab']) await page.keyboard.press(key)
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('money, money, checkout')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    t.same(await page.locator('.tag').allInnerTexts(), ['money', 'checkout'])
    t.match(await stack.sql`SELECT tags FROM event_definitions WHERE name = 'paid'`, [{ tags: ['money', 'checkout'] }])
    t.equal(await page.evaluate(() => (globalThis as any).document.activeElement?.textContent), 'Change of paid', 'the focus is back')
    await page.reload()
    await page.getByText('1 to 1 of 1').waitFor()
    t.same(problems, [])
    await context.close()
  })

  await t.test('a dead letter is found, opened and replayed after a dry run', async (t) => {
    const context = await createContext(browser, stack)
    const { page, problems } = await open(context, stack.url, '/projects/1/dead-letters')
    const row = page.getByRole('row', { name: /^<img/ })
    t.match(await row.innerText(), /persons · invalid_update[\s\S]*no such person <img[\s\S]*2/)
    await row.getByRole('link').click()
    await page.getByText('1 to 2 of 2').waitFor()
    await page.getByRole('link', { name: '1', exact: true }).click()
    await page.getByText('"name": "\\"><script>globalThis.hacked=1</script>"').waitFor()
    await page.goBack()
    await page.getByText('1 to 2 of 2').waitFor()
    await page.goBack()
    await page.getByRole('link', { name: 'bytes' }).click()
    await page.getByRole('link', { name: '3', exact: true }).click()
    await page.getByText('It is neither events nor JSON').waitFor()
    await page.getByRole('button', { name: 'Purge …' }).click()
    const purge = page.getByRole('dialog')
    t.ok(await purge.getByRole('button', { name: 'Purge 1' }).isDisabled(), 'not before the word is typed')
    await purge.getByLabel('Type purge to go on').fill('purge')
    await page.keyboard.press('Enter')
    await purge.getByText('1 purged.').waitFor()
    await purge.getByRole('button', { name: 'Close' }).click()
    await purge.waitFor({ state: 'detached' })
    await waitFor(async () => await page.getByRole('link', { name: 'bytes' }).count() === 0)

    await page.getByRole('link', { name: 'paid', exact: true }).click()
    await page.getByRole('link', { name: '4', exact: true }).click()
    await page.getByText('Edit and send as a new event').click()
    const editor = page.getByLabel('The event')
    const draft = await editor.inputValue()
    t.match(JSON.parse(draft), { event: 'paid', distinct_id: HOSTILE[1], properties: { $dead_letter_id: 4, plan: 'wrong' } })
    await editor.fill(draft.replace('wrong', 'mended'))
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('button', { name: 'Ask again' }).waitFor()
    await waitFor(async () => {
      await page.getByRole('button', { name: 'Ask again' }).click()
      return await page.getByText('It is stored: analysts find it.').isVisible()
    })
    t.match(await stack.select("SELECT JSONExtractInt(properties, '$dead_letter_id') AS origin FROM events WHERE properties LIKE '%mended%'"), [{ origin: '4' }])

    await page.getByRole('link', { name: 'Dead letters' }).first().click()
    await row.getByRole('button', { name: /^Replay 2 of/ }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('2 dead letters would be published to the stream again.').waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    t.ok(await row.isVisible(), 'nothing happened')
    await row.getByRole('button', { name: /^Replay 2 of/ }).click()
    await dialog.getByRole('button', { name: 'Replay' }).click()
    await dialog.getByText('2 replayed.').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    t.equal(await page.evaluate(() => (globalThis as any).hacked), undefined)
    t.same(problems, [])
    await context.close()
  })

  await t.test('a flag is written, tested as somebody before it is saved, and deleted', async (t) => {
    const context = await createContext(browser, stack)
    const { page, problems } = await open(context, stack.url, '/projects/1/flags')
    await page.getByText('There are no flags yet.').waitFor()
    await page.getByRole('link', { name: 'New flag' }).click()
    await page.getByLabel('Key, as SDKs ask for it').fill('new-checkout')
    await page.getByRole('button', { name: 'Add a filter' }).click()
    await page.getByLabel('Property').fill('plan')
    await page.getByLabel('Value: text').fill('["pro", "team"]')
    await page.getByLabel('Rollout').fill('50')
    await page.getByText('1. 50 % of persons where plan is "pro" or "team"').waitFor()
    await page.getByRole('button', { name: 'Add a variant' }).click()
    await page.getByRole('group', { name: 'Variant 1' }).getByLabel('Key').fill('short')
    await page.getByLabel('For short').fill('{"steps": 2}')

    await page.getByLabel('Distinct id').fill('ann')
    await page.getByLabel('Person properties').fill('{"plan": "free"}')
    await page.getByRole('button', { name: 'Test', exact: true }).click()
    await page.getByText('saw "free", sent with the request').waitFor()
    await page.getByText('No matching condition set').waitFor()
    await page.getByText(/ann is at [\d.]+ of 100: (within|outside of) the rollout of 50 %/).waitFor()
    t.same(await stack.sql`SELECT key FROM feature_flags`, [], 'it is not saved yet')

    await page.getByLabel('Rollout').fill('100')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'new-checkout', level: 1 }).waitFor()
    t.match(await stack.sql`SELECT filters FROM feature_flags`, [{
      filters: {
        groups: [{ properties: [{ key: 'plan', value: ['pro', 'team'], operator: 'exact', type: 'person' }], rollout_percentage: 100 }],
        multivariate: { variants: [{ key: 'short', rollout_percentage: 100 }] },
        payloads: { short: '{"steps": 2}' }
      }
    }])
    await page.getByRole('checkbox', { name: 'On' }).uncheck()
    await page.getByText('Changed: active.').waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('off for everyone; when on:').waitFor()
    const { violations } = await new AxeBuilder({ page }).analyze()
    t.same(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`), [])

    await page.getByRole('button', { name: 'Delete' }).click()
    t.ok(await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).isDisabled())
    await page.getByLabel('Type its key').fill('new-checkout')
    await page.keyboard.press('Enter')
    await page.getByText('There are no flags yet.').waitFor()
    t.same(problems, [])
    await context.close()
  })

  await t.test('an experiment with a planted effect is made, launched, read off the picture, and ended', async (t) => {
    const context = await createContext(browser, stack)
    const { page, problems } = await open(context, stack.url, '/projects/1/experiments')
    await page.getByText('There are no experiments yet.').waitFor()
    await page.getByRole('link', { name: 'New experiment' }).click()
    await page.getByLabel('Name').fill('Short checkout')
    await page.getByLabel('Key of the flag').fill('checkout')
    await page.getByRole('textbox', { name: 'Event' }).fill('bought')
    await page.getByRole('button', { name: 'Create a draft' }).click()
    await page.getByText('There are none before the start').waitFor()
    await page.getByRole('button', { name: 'Launch' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Launch' }).click()
    await page.getByText('Nobody was exposed yet').waitFor()

    // Every second person of `control` buys, three of four of `test`.
    await send(stack, Array.from({ length: 400 }, (_, index) => {
      const variant = index % 2 === 0 ? 'control' : 'test'
      const shown = { event: '$feature_flag_called', distinct_id: `p${index}`, properties: { $feature_flag: 'checkout', $feature_flag_response: variant } }
      return index % 8 < (variant === 'test' ? 6 : 4) ? [shown, { event: 'bought', distinct_id: `p${index}` }] : [shown]
    }).flat())
    const refresh = page.getByRole('button', { name: 'Compute again' })
    await waitFor(async () => {
      await refresh.click()
      await page.getByText('There is a difference. The best is most likely test.').waitFor({ timeout: 2000 })
      return true
    }, { timeoutMs: 30_000 })
    t.match(await page.getByRole('img', { name: /^Change against control: test \+50\.0 %/ }).count(), 1)
    t.match(await page.getByRole('row', { name: /^test/ }).first().innerText(), /200[\s\S]*75\.0 %[\s\S]*\+50\.0 %/)
    const { violations } = await new AxeBuilder({ page }).analyze()
    t.same(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`), [])

    await page.getByRole('button', { name: 'End' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'End' }).click()
    await page.getByRole('button', { name: 'Archive' }).waitFor()
    t.same(problems, [])
    await context.close()
  })

  await t.test('live events appear with their fate, and one opens as sent and as stored', async (t) => {
    const context = await createContext(browser, stack)
    const { page, problems } = await open(context, stack.url, '/projects/1/live')
    await page.getByText('Nothing has arrived since you look.').waitFor()
    await page.getByText('Watching.').waitFor()
    const rows = (text: string | RegExp): Locator => page.locator('.live tbody tr').filter({ hasText: text })
    await waitFor(async () => {
      await send(stack, [{ event: HOSTILE[0]! }])
      return await rows('<img src=x').count() > 0
    })

    const event = { event: 'paid', uuid: randomUUID(), distinct_id: HOSTILE[1]!, properties: { plan: 'pro', $lib: 'posthog-go' } }
    await send(stack, [event, { event: '' }])
    await rows(/paid.*script.*posthog-go.*stored after \d/).waitFor()
    await rows(/\(no name\).*dropped: missing_event_name/).waitFor()
    await send(stack, [{ ...event, properties: { plan: 'free' } }])
    await rows(/paid.*duplicate/).waitFor()
    await page.getByLabel('Property', { exact: true }).fill('plan')
    await page.getByLabel('Value').fill('pro')
    await waitFor(async () => await rows('').count() === 1)
    t.match(page.url(), /property=plan&value=pro$/, 'a filter has an address')

    await page.getByRole('button', { name: 'Pause' }).click()
    await send(stack, [{ event: 'paid', properties: { plan: 'pro' } }])
    await page.getByRole('button', { name: 'Continue: 1 held back' }).waitFor()
    t.equal(await rows('').count(), 1)
    await page.getByRole('button', { name: /^Continue/ }).click()
    await waitFor(async () => await rows('').count() === 2)

    await rows('script').getByRole('button').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('As sent').getByText('"plan": "pro"').waitFor()
    await dialog.getByLabel('As stored').getByText(`distinct_id  ${HOSTILE[1]!}`).waitFor()
    await dialog.getByText('It came 1 more time, and was counted once.').waitFor()
    t.match(await dialog.getByLabel('As a command').textContent(), `curl '${stack.url}/batch/'`)
    const { violations } = await new AxeBuilder({ page }).analyze()
    t.same(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`), [])
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })

    await page.getByRole('link', { name: 'Find an event' }).click()
    await page.getByLabel('Uuid or distinct id').fill(` ${event.uuid.toUpperCase()}`)
    await page.keyboard.press('Enter')
    await page.getByText('It is stored: analysts find it.').waitFor()
    await page.getByLabel('Uuid or distinct id').fill(HOSTILE[1]!)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: event.uuid }).waitFor()
    await page.getByLabel('Uuid or distinct id').fill(randomUUID())
    await page.keyboard.press('Enter')
    await page.getByText('Nothing is known of it').waitFor()
    t.equal(await page.evaluate(() => (globalThis as any).hacked), undefined)
    t.same(problems, [])
    await context.close()
  })

  await t.test('what a key may not do is not offered', async (t) => {
    const { key } = await createPersonalKey(stack.sql, {
      email: 'admin@millrace.localhost', label: 'reader', scopes: ['event_definition:read'], projectIds: [1], expiresAt: null
    })
    const context = await browser.newContext()
    const { page } = await open(context, stack.url, '')
    await logIn(page, key)
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    t.same(await page.getByRole('navigation').getByRole('link').allInnerTexts(), ['Events'])
    t.equal(await page.getByRole('button', { name: /tags/i }).count(), 0)
    await page.goto(`${stack.url}/console/health`)
    await page.getByText('There is no such page, or your key may not see it.').waitFor()
    await context.close()
  })

  await t.test('every screen is accessible and fits, light and dark, from 360 to 2,560 pixels', async (t) => {
    for (const [colorScheme, width] of [['light', 360], ['dark', 1280], ['light', 2560], ['dark', 360]] as const) {
      const context = await createContext(browser, stack, { colorScheme, viewport: { width, height: 900 } })
      for (const path of SCREENS) {
        const { page, problems } = await open(context, stack.url, path)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.locator('table, .empty').first().waitFor()
        const { violations } = await new AxeBuilder({ page }).analyze()
        t.same(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`), [], `${path} ${colorScheme} ${width}`)
        t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), `${path} fits ${width}`)
        t.same(problems, [])
        await page.close()
      }
      await context.close()
    }
  })
})
