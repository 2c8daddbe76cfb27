/** Questions in the console: put together, drawn, saved and opened again, in a real browser on the real stack. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkPage, HOSTILE, logIn, openPage, openProject, send } from './open-console.ts'

const SCREEN_BYTES = 25_000

const { stack, browser, open, home } = await openProject(t)

/** Of six people who searched, four in Austria and two in Chile, three and none ordered, two minutes later. */
const searched = ['at1', 'at2', 'at3', 'at4', 'cl1', 'cl2']
const at = (minutes: number): string => new Date(Date.now() - 3_600_000 + minutes * 60_000).toISOString()
await send(stack, [
  ...searched.map((id) => ({ event: 'search', distinct_id: id, timestamp: at(0), properties: { $geoip_country_code: id.startsWith('at') ? 'AT' : 'CL' } })),
  ...searched.slice(0, 3).map((id, index) => ({ event: 'order', distinct_id: id, timestamp: at(2), properties: { amount: index === 2 ? '2,5' : index + 0.5, $geoip_country_code: 'AT' } })),
  { event: HOSTILE[0]!, distinct_id: 'x', properties: { [HOSTILE[0]!]: HOSTILE[1] } }
])
const count = async (): Promise<number> => Number((await stack.select<{ n: string }>(`SELECT count() AS n FROM events WHERE project_id = ${stack.project}`))[0]!.n)
await waitFor(async () => await count() === 10)
await waitFor(async () => (await stack.sql`SELECT 1 FROM event_definitions WHERE project_id = ${stack.project} AND volume_30_day > 0`).length === 3, { timeoutMs: 120_000 })

/** The text of each row, head and all. */
async function rows (page: Page, table: string): Promise<string[]> {
  const region = page.getByRole('region', { name: table, exact: true })
  await region.waitFor()
  return (await region.getByRole('row').allInnerTexts()).map((row) => row.replaceAll(/\s+/g, ' ').trim())
}

/** Labels of the axis that another one covers. */
async function findOverlaps (page: Page): Promise<string[]> {
  return await page.locator('.chart text[text-anchor=middle]').evaluateAll((labels: any[]) => labels
    .filter((label, index) => label.getBoundingClientRect().left < labels[index - 1]?.getBoundingClientRect().right)
    .map((label) => label.textContent))
}

t.test('a funnel by country is put together with the keyboard, says who dropped out, is saved and opened again', async (t) => {
  const { page, problems } = await open(`${home}/questions`)
  await page.getByText('There are no questions yet').waitFor()
  await page.getByRole('link', { name: 'New funnel' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'New funnel', level: 1 }).waitFor()
  await page.getByLabel('Step 1', { exact: true }).focus()
  await page.keyboard.type('search')
  await page.locator('.hint', { hasText: '6 in 30 days' }).waitFor()
  await page.getByLabel('Step 2', { exact: true }).focus()
  await page.keyboard.type('ordr')
  t.equal(await page.getByText('No event has this name.').count(), 0, 'partial input is not an error')
  await page.keyboard.press('Tab')
  await page.getByText('No event has this name.').waitFor()
  await page.keyboard.press('Shift+Tab')
  await page.keyboard.press('End')
  await page.keyboard.press('Backspace')
  await page.keyboard.type('er')
  await page.getByLabel('Broken down by a property').focus()
  await page.keyboard.press('Space')
  await page.getByLabel('Property', { exact: true }).focus()
  await page.keyboard.type('$geoip_country_code')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Steps' }).waitFor()

  t.match(await rows(page, 'Steps'), [/^Step/, /^1\. search 6 100\.0 %/, /^2\. order 3 50\.0 % 50\.0 % 2 min/])
  t.match(await rows(page, 'By value'), [/^Value/, /^AT 4 75\.0 % 3 −1.* 2 min/, /^CL 2 0\.0 % 0 −2.* –/])
  await page.getByRole('combobox', { name: /^Order/ }).selectOption('worst')
  await page.getByRole('combobox', { name: 'People count in' }).selectOption('any')
  await page.getByRole('button', { name: 'Ask' }).click()
  await waitFor(async () => (await rows(page, 'By value'))[1]!.startsWith('CL'))
  await page.getByText('People who entered in the last 14 days still have time').waitFor()
  await page.getByRole('button', { name: '−2 dropped out before step 2: CL' }).click()
  await page.getByRole('heading', { name: 'Did not reach step 2: CL' }).waitFor()
  await page.getByRole('dialog').getByRole('link').nth(1).waitFor()
  t.equal(await page.getByRole('dialog').getByRole('link').count(), 2)
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
  t.match(await page.getByRole('region', { name: 'Answer' }).getByRole('status').first().innerText(), /^\d{4}-\d\d-\d\d to .* days of UTC · without bots · sampled events not scaled up · complete through .* · [\d,]+ rows? read/)
  await page.getByRole('button', { name: '3 dropped out before step 2' }).click()
  await page.getByRole('dialog').getByRole('link').nth(2).waitFor()
  t.equal(await page.getByRole('dialog').getByRole('link').count(), 3)
  // Nobody was identified, so no person is stored: the link leads to the events.
  const { page: events } = await open((await page.getByRole('dialog').getByRole('link').first().getAttribute('href'))!.replace('/console', ''))
  await events.getByRole('cell', { name: 'search' }).first().waitFor()
  await events.close()
  // What was asked and not saved is in the address: nothing asks, and the way back and a reload show it.
  await page.getByRole('dialog').getByRole('link').first().click()
  await page.getByRole('heading', { name: 'Stored events', level: 1 }).waitFor()
  await page.goBack()
  t.match((await rows(page, 'Steps'))[2], /^2\. order 3/)
  await page.reload()
  t.match((await rows(page, 'Steps'))[2], /^2\. order 3/)

  await page.getByRole('button', { name: 'Save …' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('Orders')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Orders', level: 1 }).waitFor()
  await page.getByRole('region', { name: 'Steps' }).waitFor()
  t.match(page.url(), /\/questions\/\d+$/)
  await checkPage(t, page, 'a funnel')
  t.match((await rows(page, 'By value'))[1], /^CL/, 'the order is stored with the question')
  await page.getByRole('button', { name: 'Save as a new one …' }).click()
  t.match(await page.getByRole('dialog').getByLabel('Name').inputValue(), /^search, then order/, 'the name of the other one is not offered')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('link', { name: 'Questions' }).first().click()
  t.match(await rows(page, 'Questions'), [/^Name/, /^Orders Funnel search, then order, by any \$geoip_country_code/])
  await checkPage(t, page, 'the list')
  const assets = await page.evaluate(() => (globalThis as any).performance.getEntriesByType('resource').map((each: any) => each.name).filter((each: any) => /questions-screen/.test(each)) as string[])
  const sizes = await Promise.all(assets.map(async (asset) => Number((await page.request.get(asset)).headers()['content-length'])))
  t.ok(sizes.length === 1 && sizes[0]! > 1000 && sizes[0]! < SCREEN_BYTES, String(sizes))
  t.same(problems, [])
  await page.close()
})

t.test('a trend is drawn, the same stands in a table, and its SQL opens in SQL', async (t) => {
  const { page, problems } = await open(`${home}/questions/new/trend`)
  await page.getByLabel('Event 1', { exact: true }).fill('order')
  await page.getByRole('combobox', { name: /^Count/ }).selectOption('sum')
  await page.getByRole('button', { name: 'Add a condition' }).click()
  const condition = page.getByRole('group', { name: 'Event 1, condition 1' })
  await condition.getByRole('combobox', { name: 'where' }).selectOption('person')
  await condition.getByRole('combobox', { name: 'Property' }).fill('plan')
  await condition.getByRole('combobox', { name: 'Operator' }).selectOption('is_not_set')
  await page.getByLabel('property', { exact: true }).fill('amount')
  await page.getByLabel('Compare with the previous period').check()
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByRole('img', { name: /^sum of amount of order where the person.* along time, 30 points/ }).waitFor()

  t.match((await rows(page, 'Values'))[1], /^All of it 2 0$/)
  await page.getByText(/^Before: \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d \d\d:\d\d\. The range is still running.* No event of that time matches/).waitFor()
  await page.getByRole('button', { name: /^2: list the persons of sum of amount/ }).first().click()
  await page.getByRole('dialog').getByText('2 persons, latest first.').waitFor()
  t.match(await rows(page, 'Persons'), [/^Person Last .* Value$/, / 0\.50$|1\.50$/, / 0\.50$|1\.50$/])
  await page.getByRole('button', { name: 'Close' }).click()
  t.equal(await page.locator('.chart svg .series-0').count(), 2, 'what it was before has the same colour')
  t.equal(await page.locator('.chart svg .series-0.before').count(), 1, 'and other lines')
  t.match((await rows(page, 'Values'))[0], /Before, from sum of amount of order where the person’s plan is not set \(before\)$/)
  await page.getByText('Dotted: partial').waitFor()
  await page.getByText('1 event without a number in the property left out of the sum of amount of order.').waitFor()
  t.match((await rows(page, 'Values')).at(-1), /partial/)
  await condition.getByRole('combobox', { name: 'Operator' }).selectOption('is_set')
  await page.getByRole('button', { name: 'Ask' }).click()
  await waitFor(async () => /^All of it 0 0$/.test((await rows(page, 'Values'))[1]!))
  await page.getByText('All values are 0 for: sum of amount of order where the person’s plan is set.').waitFor()
  await condition.getByRole('combobox', { name: 'Operator' }).selectOption('is_not_set')
  await page.getByRole('button', { name: 'Ask' }).click()
  await waitFor(async () => /^All of it 2 0$/.test((await rows(page, 'Values'))[1]!))
  for (const width of [360, 1280, 2560]) {
    await page.setViewportSize({ width, height: 900 })
    // It is drawn again once its new width is measured.
    await t.resolves(waitFor(async () => (await findOverlaps(page)).length === 0), `labels of the axis at ${width}`)
  }
  t.match(await page.locator('.chart .partial').first().getAttribute('d'), /L[\d.]+ [\d.]+$/, 'the line to today, which has not ended, is dashed')
  await checkPage(t, page, 'a trend')
  await page.getByText('The SQL of this answer').click()
  t.match(await page.getByLabel('SQL', { exact: true }).innerText(), /^-- trend: /)
  await page.getByRole('link', { name: 'Open it in SQL' }).click()
  await page.getByRole('heading', { name: 'SQL', level: 1 }).waitFor()
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByText(/^[\d,]+ rows? · /).waitFor()
  t.same(problems, [])
  await page.close()
})

t.test('a lifecycle and a stickiness are drawn, and a number of theirs opens its persons', async (t) => {
  const { page, problems } = await open(`${home}/questions/new/lifecycle`)
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByRole('button', { name: /^\d+: list the persons of new, / }).last().click()
  await page.getByRole('dialog').getByText(/^\d+ persons\.$/).waitFor()
  await page.getByRole('button', { name: 'Close' }).click()
  await checkPage(t, page, 'a lifecycle')
  const { page: other } = await open(`${home}/questions/new/stickiness`)
  await other.getByRole('button', { name: 'Ask' }).click()
  await other.getByRole('button', { name: /: list the persons of Active in 1 week/ }).click()
  await other.getByRole('dialog').getByText(/^\d+ persons\.$/).waitFor()
  t.same(problems, [])
  await other.close()
  await page.close()
})

t.test('a retention is a table whose shades are its picture; an error names its cause', async (t) => {
  const { page, problems } = await open(`${home}/questions/new/retention`)
  await page.getByLabel('First did', { exact: true }).fill('search')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'Retention' }).waitFor()
  t.equal((await rows(page, 'Retention')).length, 9)
  t.match((await rows(page, 'Retention')).slice(-2).join(), / 6 \*| 6 /, 'in this week, or in the one before at its beginning')
  await page.getByText('in which they first did it;').last().waitFor()
  await checkPage(t, page, 'a retention')
  await page.getByRole('combobox', { name: /^Who counts/ }).selectOption('any')
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByText('in each period in which they did it').waitFor()

  const range = page.getByRole('combobox', { name: /^Range/ })
  await range.selectOption('last week')
  t.equal(await page.getByRole('spinbutton', { name: 'number' }).count(), 0, 'a range with a name is one choice')
  const monday = Date.now() - (new Date().getUTCDay() + 6) % 7 * 86_400_000
  const [first, last] = [7, 1].map((days) => new Date(monday - days * 86_400_000).toISOString().slice(0, 10))
  await page.getByText(`${first} to ${last}`, { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByText('A range of one week has no later week in which anybody could come back.').waitFor()
  await page.getByRole('button', { name: 'Ask for the last 8 weeks' }).click()
  await waitFor(async () => (await rows(page, 'Retention')).length === 9)
  t.equal(await page.getByRole('spinbutton', { name: 'number' }).inputValue(), '8')
  await page.getByRole('spinbutton', { name: 'number' }).fill('1')
  t.ok(await page.getByRole('spinbutton', { name: 'number' }).isVisible(), 'partial input does not become a name')
  await page.getByLabel('Came back for', { exact: true }).focus()
  await page.keyboard.type('order')
  t.notOk(await page.getByRole('checkbox', { name: 'any event' }).last().isChecked(), 'who types a name means that event')
  t.equal(await page.getByLabel('Came back for', { exact: true }).inputValue(), 'order')
  await page.getByRole('combobox', { name: /^Range/ }).selectOption('days')
  await page.getByLabel('from', { exact: true }).fill('2026-03-02')
  await page.getByLabel('to', { exact: true }).fill('2026-03-01')
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByRole('alert').getByText('The last day must not be before the first one.').waitFor()
  t.match(problems, [/400/])
  await page.close()
})

t.test('a key for one project asks too, and is offered no SQL; names are text', async (t) => {
  const { key } = await createPersonalKey(stack.sql, {
    email: 'admin@millrace.localhost', label: 'asks', scopes: ['query:read', 'event_definition:read'], projectIds: [stack.project], expiresAt: null
  })
  const context = await browser.newContext()
  const { page, problems } = await openPage(context, stack.url, '')
  await logIn(page, key)
  await page.getByRole('heading', { name: 'Questions', level: 1 }).waitFor()
  t.equal((await page.getByRole('navigation').getByRole('link').allInnerTexts())[0], 'Questions', 'it is the first of the menu')
  problems.length = 0
  await page.goto(`${stack.url}/console${home}/questions/new/trend`)
  await page.getByLabel('Event 1', { exact: true }).fill(HOSTILE[0]!)
  await page.locator('.hint', { hasText: '1 in 30 days' }).waitFor()
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByRole('img', { name: /along time, 30 points/ }).waitFor()
  t.match((await rows(page, 'Values'))[1], /^All of it 1$/)
  await page.getByText('The SQL of this answer').click()
  t.equal(await page.getByRole('link', { name: 'Open it in SQL' }).count(), 0)
  t.equal(await page.getByRole('button', { name: 'Save …' }).count(), 0)
  t.equal(await page.evaluate(() => (globalThis as any).hacked), undefined)
  t.same(problems, [])
  await context.close()
})

t.test('a question that does not exist is said not to, and there is nothing to try again', async (t) => {
  const { page } = await open(`${home}/questions/999999`)
  await page.getByRole('alert').getByText('The question: not found. It was deleted, or the address is wrong.').waitFor()
  t.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0)
  await page.close()
})

t.test('days that retention removed have no value, and it says why', async (t) => {
  await stack.sql`INSERT INTO retention (what, project_id, days) VALUES ('events', ${stack.project}, 3)`
  t.teardown(async () => { await stack.sql`DELETE FROM retention WHERE project_id = ${stack.project}` })
  const kept = new Date(Date.now() - 3 * 86_400_000).toISOString().slice(0, 10)
  const { page, problems } = await open(`${home}/questions/new/trend`)
  await page.getByLabel('Event 1', { exact: true }).fill('search')
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByText(`no values before ${kept} (UTC): retention removed the events`).waitFor()

  const values = await rows(page, 'Values')
  t.equal(values.filter((row) => / removed –$/.test(row)).length, 26)
  t.match(values[1], /^All of it 6$/)
  await page.goto(`${stack.url}/console${home}/questions/new/retention`)
  await page.getByLabel('First did', { exact: true }).fill('search')
  await page.getByRole('button', { name: 'Ask' }).click()
  await page.getByText(`first did it since ${kept}, before which retention removed the events`).last().waitFor()
  t.match((await rows(page, 'Retention'))[1], /^\d{4}-\d\d-\d\d –( –)+ – \*$/)
  t.same(problems, [])
  await page.close()
})

t.test('on a phone, the answer comes into sight and has the focus; on a wide screen nothing moves', async (t) => {
  const { page, problems } = await open(`${home}/questions/new/funnel`)
  for (const [width, height, scrolls] of [[390, 700, true], [1280, 1200, false]] as const) {
    await page.setViewportSize({ width, height })
    await page.emulateMedia({ reducedMotion: 'reduce' })
    await page.reload()
    await page.getByLabel('Step 1', { exact: true }).fill('search')
    await page.getByLabel('Step 2', { exact: true }).fill('order')
    await page.keyboard.press('Enter')
    const heading = page.getByRole('heading', { name: 'Answer' })
    await heading.waitFor()
    if (scrolls) await waitFor(async () => (await heading.boundingBox())!.y < height - 200)
    t.equal(await page.evaluate(() => (globalThis as any).document.activeElement.contains((globalThis as any).document.querySelector('[aria-label=Answer]')) as boolean), scrolls, String(width))
    t.equal(await page.evaluate(() => (globalThis as any).scrollY > 0), scrolls)
    await page.goto('about:blank')
    await page.goto(`${stack.url}/console${home}/questions/new/funnel`)
  }
  t.same(problems, [])
  await page.close()
})
