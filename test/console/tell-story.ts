/**
 * The whole story of the console: a project is connected and its first event seen live,
 * a refused event found and replayed, a flag made and tested as a user, an experiment with a planted effect
 * read off its picture, a query saved and opened by its link.
 */
import { randomUUID } from 'node:crypto'
import type { Locator, Page } from 'playwright-core'
import type { Test } from 'tap'
import type { RunningStack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import type { Hand } from './hands.ts'
import { askUntil, openPage, type ProjectUnderTest, send, whenClosed } from './open-console.ts'

interface Story {
  stack: RunningStack
  page: Page
  hand: Hand
  /** Of the project that the story is about. */
  project: number
  key: string
}

/** The key of what the story makes: each hand makes its own. */
const named = ({ hand }: Story, what: string): string => `${what}-of-${hand.name}`

/** A link of the menu. */
export const menu = (page: Page, title: string): Locator => page.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name: title, exact: true })

const button = (page: Page, name: string | RegExp): Locator => page.getByRole('button', { name, exact: true })

async function call ({ stack, project }: Story, method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(`${stack.url}/api/projects/${project}/${path}`, {
    method, headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  return await response.json()
}

/** @returns the project that was made. */
async function connectProject (t: Test, { stack, page, hand }: Omit<Story, 'project' | 'key'>): Promise<Pick<Story, 'project' | 'key'>> {
  await hand.press(menu(page, 'Projects'))
  await hand.press(button(page, 'New project …'))
  const dialog = page.getByRole('dialog')
  await hand.write(dialog.getByLabel('Name'), `Shop of the ${hand.name}`)
  await hand.press(dialog.getByRole('button', { name: 'Create' }))
  await page.getByRole('heading', { name: `Connect Shop of the ${hand.name}`, level: 1 }).waitFor()
  await page.getByText('Waiting for the first event').waitFor()
  const command = await page.getByLabel('Code for curl').textContent()
  const key = /"api_key":"([^"]+)"/.exec(command!)![1]!
  // A new key reaches ingest within a second.
  await waitFor(async () => await send(stack, [{ event: 'hello', distinct_id: 'me' }], key).then(() => true, () => false))
  await page.getByText(/^First event received at/).waitFor()
  t.ok(true, 'the light turned')
  return { key, project: Number(/projects\/(\d+)\/connect/.exec(page.url())![1]) }
}

async function seeItLive (t: Test, { stack, page, hand, key }: Story): Promise<void> {
  await hand.press(page.getByRole('link', { name: 'See it live' }))
  await page.getByText('Watching.').waitFor()
  await send(stack, [{ event: 'opened the shop', distinct_id: 'me', properties: { door: 'front' } }], key)
  const row = page.locator('.live tbody tr').filter({ hasText: /opened the shop.*accepted/ })
  await row.waitFor()
  await hand.press(row.getByRole('button'))
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('As stored').getByText('"door":"front"').waitFor()
  if (hand.name === 'keyboard') await page.keyboard.press('Escape')
  else await dialog.getByRole('button', { name: 'Close' }).click()
  await whenClosed(dialog)
  t.equal(await focused(page), 'opened the shop', 'the focus is back on what opened it')
}

async function mendAndReplay (t: Test, story: Story): Promise<void> {
  const { stack, page, hand, key } = story
  const { id } = await call(story, 'POST', 'event_schemas/', {
    event: 'paid', mode: 'quarantine', owner: 'shop', schema: { required: ['plan'], properties: { plan: { enum: ['free', 'pro'] } } }
  })
  await call(story, 'PATCH', `event_schemas/${id}/`, { active_version: 1 })
  // Ingest follows within a second; until then it stores what it gets.
  const refused = await waitFor(async () => {
    const buyer = `buyer-${randomUUID()}`
    await send(stack, [{ event: 'paid', distinct_id: buyer, properties: { plan: 'prow' } }], key)
    return await waitFor(async () => {
      const { results: [receipt] } = await call(story, 'GET', `receipts/?distinct_id=${buyer}`)
      return receipt?.fate === 'dead_letter' ? buyer : receipt?.fate === 'stored' ? 'stored' : undefined
    }).then((found) => found === 'stored' ? undefined : found)
  })

  await hand.press(menu(page, 'Find an event'))
  await hand.write(page.getByRole('searchbox'), refused)
  await hand.press(button(page, 'Find'))
  const row = page.getByRole('region', { name: 'Events', exact: true }).getByRole('row').filter({ hasText: 'dead letter' })
  await row.waitFor()
  await hand.press(row.getByRole('link'))
  await hand.press(page.getByRole('link', { name: /^Dead letter \d+$/ }))
  await page.getByText(/plan/).first().waitFor()

  // The cause is mended: from now on the schema only observes.
  await call(story, 'PATCH', `event_schemas/${id}/`, { mode: 'observe' })
  await hand.press(menu(page, 'Dead letters'))
  await hand.press(button(page, 'Replay 1 of paid …'))
  const dialog = page.getByRole('dialog')
  await dialog.getByText('1 dead letter would be published to the stream again.').waitFor()
  await hand.press(dialog.getByRole('button', { name: 'Replay' }))
  await dialog.getByText('1 replayed.').waitFor()
  await hand.press(dialog.getByRole('button', { name: 'Close' }))
  await whenClosed(dialog)
  await waitFor(async () => (await call(story, 'GET', `receipts/?distinct_id=${refused}`)).results.every(({ fate }: { fate: string }) => fate === 'stored'))
  t.equal((await call(story, 'GET', `receipts/?distinct_id=${refused}`)).results.length, 1, 'the refused event')
}

async function makeFlag (t: Test, story: Story): Promise<void> {
  const { page, hand } = story
  const key = named(story, 'checkout')
  await hand.press(menu(page, 'Flags'))
  await hand.press(page.getByRole('link', { name: 'New flag' }))
  await hand.write(page.getByLabel('Key in SDKs'), key)
  await hand.press(button(page, 'Add a filter'))
  await hand.choose(page.getByLabel('Of what'), 'person property')
  await hand.write(page.getByLabel('Property', { exact: true }), 'plan')
  await hand.choose(page.getByLabel('Operator'), 'is not')
  await hand.write(page.getByLabel('Value: text'), 'free')
  await page.getByText('1. Persons where plan is not "free"').waitFor()
  for (const [plan, value] of [['free', 'false'], ['pro', 'true']] as const) {
    await hand.write(page.getByRole('textbox', { name: 'Distinct id' }), 'me')
    await hand.write(page.getByLabel('Person properties'), `{"plan": "${plan}"}`)
    await hand.press(button(page, 'Test'))
    await page.getByText(`saw "${plan}", sent with the request`).waitFor()
    t.equal(await page.locator('details summary code').first().textContent(), value, plan)
  }
  await hand.press(button(page, 'Save'))
  await page.getByRole('heading', { name: key, level: 1 }).waitFor()
  t.match(await call(story, 'GET', `feature_flags/?search=${key}`), { count: 1, results: [{ key, active: true }] })
}

async function readExperiment (t: Test, story: Story): Promise<void> {
  const { stack, page, hand, key } = story
  const flag = named(story, 'short')
  await hand.press(menu(page, 'Experiments'))
  await hand.press(page.getByRole('link', { name: 'New experiment' }))
  await hand.write(page.getByLabel('Name'), 'Short checkout')
  await hand.write(page.getByLabel('Key of the flag'), flag)
  await hand.write(page.getByRole('combobox', { name: 'Event' }), 'bought')
  await hand.press(button(page, 'Create a draft'))
  await hand.press(button(page, 'Launch …'))
  await hand.press(page.getByRole('dialog').getByRole('button', { name: 'Launch' }))
  await page.getByText('Nobody has been exposed yet').waitFor()
  // Every second person of `control` buys, three of four of `test`.
  await send(stack, Array.from({ length: 400 }, (_, index) => {
    const variant = index % 2 === 0 ? 'control' : 'test'
    const seen = { event: '$feature_flag_called', distinct_id: `p${index}`, properties: { $feature_flag: flag, $feature_flag_response: variant } }
    return index % 8 < (variant === 'test' ? 6 : 4) ? [seen, { event: 'bought', distinct_id: `p${index}` }] : [seen]
  }).flat(), key)
  await askUntil(async () => await hand.press(button(page, 'Compute again')), page.getByText(/^test is better/))
  t.equal(await page.getByRole('img', { name: /^Change against control: test \+50\.0 %/ }).count(), 1)
}

async function saveQuery (t: Test, story: Story): Promise<void> {
  const { page, hand } = story
  await hand.press(menu(page, 'SQL'))
  const query = "SELECT event, count() AS n FROM events WHERE project_id = {project:UInt32} AND event = 'opened the shop' GROUP BY event"
  await hand.write(page.getByLabel('Query', { exact: true }), query)
  await hand.press(button(page, 'Run'))
  await page.getByText(/^1 row · /).waitFor()
  await hand.press(button(page, 'Save …'))
  const dialog = page.getByRole('dialog')
  await hand.write(dialog.getByLabel('Name'), 'Doors')
  await hand.press(dialog.getByRole('button', { name: 'Save' }))
  await page.getByRole('heading', { name: 'Doors', level: 1 }).waitFor()
  const link = page.url()
  t.match(link, /sql\?saved=\d+$/)

  await page.goto('about:blank')
  await page.goto(link)
  await page.getByText('Nothing has run yet.').waitFor()
  await hand.press(button(page, 'Run'))
  const result = page.getByRole('region', { name: 'Result' })
  await result.getByText('opened the shop').waitFor()
  t.match(await result.innerText(), /opened the shop\s+1/)
}

const focused = async (page: Page): Promise<string | null> =>
  await page.evaluate(() => (globalThis as any).document.activeElement?.textContent)

/** Tells the story with one hand, in a session and a project of its own. */
export async function tellStory (
  t: Test, { stack, browser }: ProjectUnderTest, take: (page: Page) => Hand
): Promise<void> {
  const context = await browser.newContext()
  const { page, problems } = await openPage(context, stack.url, '')
  const hand = take(page)
  await hand.write(page.getByLabel('Personal API key'), stack.personalApiKey)
  await hand.press(button(page, 'Log in'))
  await page.getByText('Captures are answered').waitFor()

  const story: Story = { stack, page, hand, ...await connectProject(t, { stack, page, hand }) }
  await seeItLive(t, story)
  await mendAndReplay(t, story)
  await makeFlag(t, story)
  await readExperiment(t, story)
  await saveQuery(t, story)
  t.same(hand.problems, [])
  t.same(problems, [])
  await context.close()
}
