/** Persons in the console: found, understood and erased, in a real browser on the real stack. */
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { createStackProject } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { shareBrowser } from '../sdk/open-page.ts'
import { checkPage, send } from './open-console.ts'

/** Names and values that would do something if they were not shown as text. */
const HOSTILE = '<img src=x onerror="globalThis.hacked=1">'
const REVERSED = '\u202egnp.exe'
const SCREEN_BYTES = 25_000

const [stack, browser] = await Promise.all([createStackProject(t), shareBrowser(t)])
const home = `/projects/${stack.project}`

interface Watched { context: BrowserContext, page: Page, problems: string[] }

async function open (path: string, options: { key?: string, viewport?: { width: number, height: number }, colorScheme?: 'light' | 'dark' } = {}): Promise<Watched> {
  const { key = stack.personalApiKey, ...of } = options
  const context = await browser.newContext(of)
  const page = await context.newPage()
  const problems: string[] = []
  page.on('console', (message) => { if (message.type() === 'error') problems.push(message.text()) })
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('request', (request) => { if (!request.url().startsWith('data:') && !request.url().startsWith(stack.url)) problems.push(`request to ${request.url()}`) })
  await page.goto(`${stack.url}/console${path}`)
  await page.getByLabel('Personal API key').fill(key)
  await page.keyboard.press('Enter')
  // The menu is folded in a narrow window.
  await page.getByRole('button', { name: 'Log out' }).waitFor()
  problems.length = 0
  return { context, page, problems }
}

await send(stack, [
  { event: 'visited', distinct_id: 'device-1', properties: { $set_once: { source: 'ad' } } },
  { event: '$identify', distinct_id: 'ann', properties: { $anon_distinct_id: 'device-1', $set: { email: 'ann@example.com', plan: 'free' } } },
  { event: 'upgraded', distinct_id: 'ann', properties: { $set: { plan: 'pro' } } },
  { event: 'hello', distinct_id: HOSTILE, properties: { $set: { [HOSTILE]: REVERSED, long: 'x'.repeat(100_000) } } }
])
await waitFor(async () => (await stack.sql`SELECT 1 FROM persons WHERE project_id = ${stack.project}`).length === 2)
const count = async (table: string): Promise<number> => Number((await stack.select<{ n: string }>(`SELECT count() AS n FROM ${table} FINAL WHERE project_id = ${stack.project}`))[0]!.n)
await waitFor(async () => await count('events') === 4 && await count('persons') === 2)

t.test('a person is found by an email with the keyboard alone, and shows where everything came from', async (t) => {
  const { context, page, problems } = await open(`${home}/persons`)
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).waitFor()
  await page.getByLabel('Search persons').focus()
  await page.keyboard.type('ANN@example.com')
  await page.getByRole('row', { name: /^email ann@example.com/ }).waitFor()
  t.match(page.url(), /\?search=ANN(?:%40|@)example.com$/, 'a search has an address')
  await page.getByLabel('Search persons').fill('an')
  await page.getByRole('row', { name: /^beginning of a distinct id ann@example.com/ }).waitFor()
  await page.getByLabel('Search persons').fill('device-1')
  await page.getByRole('row', { name: /^distinct id ann@example.com/ }).waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'ann@example.com', level: 1 }).waitFor()

  const properties = page.getByRole('region', { name: 'Properties' })
  await properties.getByRole('row', { name: 'plan pro' }).waitFor()
  await properties.getByRole('row', { name: 'source ad' }).waitFor()
  const ids = page.getByRole('region', { name: 'Distinct ids' })
  t.match(await ids.getByRole('row', { name: /^ann .*UTC/ }).innerText(), /UTC\tSplit off/)
  t.match((await ids.getByRole('row').allInnerTexts()).filter((row) => /the first|joined/.test(row)).length, 2)
  const events = page.getByRole('region', { name: 'Stored events' })
  await events.getByRole('row', { name: /visited/ }).waitFor()
  t.equal(await events.locator('tbody tr').count(), 3, 'those of both ids')
  const asset = await page.evaluate(() => (globalThis as any).performance.getEntriesByType('resource').filter((each: any) => /persons-screen/.test(each.name)).map((each: any) => each.encodedBodySize) as number[])
  t.ok(asset.length === 1 && asset[0]! < SCREEN_BYTES, String(asset))
  await events.getByRole('button', { name: 'upgraded' }).click()
  await page.getByText('It is stored and visible to queries.').waitFor()
  t.same(problems, [])
  await context.close()
})

t.test('flags are computed as /flags answers them now', async (t) => {
  const created = await fetch(`${stack.url}/api${home}/feature_flags/`, {
    method: 'POST', headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ key: 'for-pro', name: '', filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }], rollout_percentage: 100 }] } })
  })
  t.equal(created.status, 201)
  const { context, page } = await open(`${home}/persons?search=ann`)
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).click()
  await page.getByRole('combobox', { name: 'Distinct id' }).selectOption('device-1')
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText('saw "pro", stored').waitFor()
  await page.getByText(/^for-pro is true/).waitFor()
  await context.close()
})

t.test('sent values are shown as text, and missing objects are reported', async (t) => {
  const { context, page } = await open(`${home}/persons`)
  await page.getByRole('link', { name: HOSTILE, exact: true }).click()
  await page.getByRole('row', { name: /^<img.*\\u\{202e\}gnp\.exe/ }).waitFor()
  t.ok((await page.getByRole('region', { name: 'Properties' }).innerText()).length < 2000, 'long values are cut')
  t.equal(await page.evaluate(() => (globalThis as any).hacked), undefined)
  await page.goto(`${stack.url}/console${home}/persons?search=nobody`)
  await page.getByText('No person has this distinct id').waitFor()
  await page.goto(`${stack.url}/console${home}/persons/00000000-0000-5000-8000-000000000000`)
  await page.getByRole('heading', { name: 'No such person' }).waitFor()
  await context.close()
})

t.test('a key sees and offers what it may', async (t) => {
  const { key } = await createPersonalKey(stack.sql, { email: 'admin@millrace.localhost', label: 'p', scopes: ['person:read'], projectIds: [stack.project], expiresAt: null })
  const { context, page, problems } = await open(`${home}/persons?search=ann`, { key })
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).click()
  await page.getByRole('heading', { name: 'ann@example.com', level: 1 }).waitFor()
  await page.getByRole('heading', { name: /^Distinct ids/ }).waitFor()
  t.equal(await page.getByRole('heading', { name: 'Last events' }).count(), 0)
  t.equal(await page.getByRole('heading', { name: 'Flags as seen now' }).count(), 0)
  t.equal(await page.getByRole('button', { name: /^(Erase|Anonymise)/ }).count(), 0)
  t.same(problems, [])
  await context.close()
})

t.test('the screen is accessible and fits, light and dark, from 360 to 2,560 pixels', async (t) => {
  const { context, page, problems } = await open(`${home}/persons?search=ann`)
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).waitFor()
  await checkPage(t, page, 'list')
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).click()
  await page.getByRole('region', { name: 'Stored events' }).waitFor()
  await page.getByRole('button', { name: 'Compute' }).click()
  await page.getByText(/^for-pro is/).waitFor()
  await checkPage(t, page, 'person')
  await page.getByRole('button', { name: 'Anonymise …' }).click()
  await page.getByRole('dialog').getByText('distinct ids').waitFor()
  await page.getByLabel('Properties to remove').fill('email')
  await checkPage(t, page, 'anonymise')
  t.same(problems, [])
  await context.close()
})

t.test('a person is erased after a word was typed, which is counted first', async (t) => {
  const { context, page, problems } = await open(`${home}/persons?search=ann`)
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).click()
  await page.getByRole('button', { name: 'Erase everything …' }).click()
  const dialog = page.getByRole('dialog')
  t.ok(await dialog.getByRole('button', { name: 'Erase' }).isDisabled(), 'not before the word is typed')
  await dialog.getByText('distinct ids').waitFor()
  await dialog.getByLabel('Type erase to go on').fill('erase')
  await page.keyboard.press('Enter')
  await page.getByRole('status').getByText(/^(Done|Recorded)/).waitFor()
  await waitFor(async () => await count('events') === 1)
  t.same((await stack.sql`SELECT 1 FROM persons WHERE project_id = ${stack.project}`).length, 1)
  t.same(problems, [])
  await context.close()
})

t.test('a group opens whatever its key is', async (t) => {
  const keys = ['..', '100%', 'a/b?c#d']
  await send(stack, keys.map((key) => ({
    event: '$groupidentify', distinct_id: 'teams', properties: { $group_type: 'team', $group_key: key, $group_set: { name: `team ${key}` } }
  })))
  await waitFor(async () => (await stack.sql`SELECT 1 FROM groups WHERE project_id = ${stack.project}`).length === keys.length)
  const { context, page, problems } = await open(`${home}/groups`)
  for (const key of keys) {
    await page.getByRole('link', { name: key, exact: true }).click()
    await page.getByRole('row', { name: `name team ${key}` }).waitFor()
    await page.getByRole('link', { name: 'Groups', exact: true }).first().click()
  }
  t.same(problems, [])
  await context.close()
})
