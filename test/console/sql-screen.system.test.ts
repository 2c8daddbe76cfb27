/** SQL in the console: a query is written, run, cancelled, drawn, saved and sent on, in a real browser on the stack. */
import { readFile } from 'node:fs/promises'
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { writeLink } from '../../console/web/sql/sql-parameters.ts'
import { createStackProject } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { shareBrowser } from '../sdk/open-page.ts'
import { checkPage, findBarriers, send, whenClosed } from './open-console.ts'

const HOSTILE = '<img src=x onerror="globalThis.hacked=1">'

/** The screen may weigh so much, compressed; the chart, which comes with the first picture, is in it. */
const SCREEN_BYTES = 25_000

/** So long it takes if nobody ends it, a minute at least. */
const LONG = 'SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))'

const [stack, browser] = await Promise.all([createStackProject(t), shareBrowser(t)])
const home = `/projects/${stack.project}`

/** An analyst sees the events of every project, and only this one sends events of this name. */
const PAID = 'bill paid'

interface Watched { context: BrowserContext, page: Page, problems: string[] }

async function open (path: string, options: { key?: string, viewport?: { width: number, height: number }, colorScheme?: 'light' | 'dark' } = {}): Promise<Watched> {
  const { key = stack.personalApiKey, ...of } = options
  const context = await browser.newContext({ acceptDownloads: true, ...of })
  const page = await context.newPage()
  const problems: string[] = []
  page.on('console', (message) => { if (message.type() === 'error') problems.push(message.text()) })
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('request', (request) => { if (!/^(?:data|blob):/.test(request.url()) && !request.url().startsWith(stack.url)) problems.push(`request to ${request.url()}`) })
  await page.goto(`${stack.url}/console${path}`)
  await page.getByLabel('Personal API key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Log out' }).waitFor()
  problems.length = 0
  return { context, page, problems }
}

async function write (page: Page, query: string): Promise<void> {
  await page.getByLabel('Query', { exact: true }).fill(query)
}

/** In the editor: a page that has just been opened gives the focus to its content, as late as the machine is busy. */
async function run (page: Page, query: string): Promise<void> {
  await write(page, query)
  await page.getByLabel('Query', { exact: true }).press('Control+Enter')
}

const cells = async (page: Page): Promise<string[]> => await page.getByRole('region', { name: 'Result' }).locator('tbody td:not(.row-number)').allInnerTexts()

/** A test waits for what it needs: the definitions come seconds after the events. */
async function sendEvents (): Promise<void> {
  await send(stack, [HOSTILE, PAID, PAID].map((event, index) => ({
    event, distinct_id: `u${index}`, properties: { plan: 'pro', amount: index }, timestamp: new Date(Date.UTC(2026, 0, 5 + index)).toISOString()
  })))
  const count = async (): Promise<number> => Number((await stack.select<{ n: string }>('SELECT count() AS n FROM events WHERE project_id = {project: UInt32}', { project: stack.project }))[0]!.n)
  await waitFor(async () => await count() === 3)
  await waitFor(async () => (await stack.sql`SELECT 1 FROM event_definitions WHERE project_id = ${stack.project}`).length >= 2)
}
await sendEvents()

t.test('a query is written, run and read, with the keyboard alone', async (t) => {
  const { context, page, problems } = await open(`${home}/sql`)
  const sizes: number[] = []
  page.on('response', (response) => { if (response.url().includes('/console/assets/')) sizes.push(Number(response.headers()['content-length'])) })
  await page.reload()
  await page.getByRole('complementary', { name: 'Queries and tables' }).getByText('events_with_person', { exact: true }).waitFor()
  const editor = page.getByLabel('Query', { exact: true })
  await editor.focus()
  await page.keyboard.press('Control+a')
  await page.keyboard.type("SELECT event, count() AS n FROM events WHERE event = 'bill paid' GROUP BY event")
  await page.keyboard.press('Control+Enter')
  await page.getByText(/^1 row · /).waitFor()
  t.same(await cells(page), [PAID, '2'])
  await page.keyboard.press('Tab')
  t.equal(await page.evaluate(() => (globalThis as any).document.activeElement?.textContent), 'Run', 'Tab leaves the editor')
  await editor.focus()
  await page.keyboard.press('Control+z')
  t.not(await editor.inputValue(), '', 'undo is the one of the browser')

  await page.getByRole('button', { name: 'Bars' }).click()
  await page.getByRole('img', { name: /^n along event, 1 bar/ }).waitFor()
  const weight = sizes.reduce((sum, size) => sum + size, 0)
  t.ok(weight > 15_000 && weight < 90_000, `${weight} bytes with the first load`)
  const screen = await page.evaluate(() => (globalThis as any).performance.getEntriesByType('resource').filter((each: any) => /sql-screen|result-chart/.test(each.name)).map((each: any) => each.encodedBodySize) as number[])
  t.equal(screen.length, 2)
  t.ok(screen.reduce((sum, size) => sum + size, 0) < SCREEN_BYTES, String(screen))
  t.same(problems, [])
  await context.close()
})

t.test('numbers keep their digits, text stays text, long values open, and pages follow', async (t) => {
  const { context, page, problems } = await open(`${home}/sql`)
  await run(page, `SELECT toUInt64(18446744073709551615) AS big, toDecimal128('12345678901234567890.55', 2) AS money, NULL AS nothing,
    (SELECT min(event) FROM events WHERE project_id = ${stack.project}) AS hostile, 'a\u202eb\u200bc' AS marks, repeat('x', 1000000) AS long`)
  await page.getByText(/^1 row · /).waitFor()
  const shown = await cells(page)
  t.same(shown.slice(0, 5), ['18446744073709551615', '12345678901234567890.55', 'NULL', HOSTILE, 'a\\u{202e}b\\u{200b}c'])
  await page.getByRole('button', { name: /^x+… 1,000,000 characters/ }).click()
  await page.getByRole('dialog').getByText('The first 100,000 of 1,000,000 characters.').waitFor()
  await page.keyboard.press('Escape')
  // The focus returns to where it was, and must have before the next key.
  await whenClosed(page.getByRole('dialog'))
  t.equal(await page.evaluate(() => (globalThis as any).hacked), undefined)

  await run(page, 'SELECT number FROM numbers(100000)')
  await page.getByText('First 1,000 rows; there are more.').waitFor()
  await page.getByText('1 to 100 of 1,000').waitFor()
  await page.getByRole('button', { name: 'Next' }).click()
  t.equal((await cells(page))[0], '100')
  t.equal(await page.locator('.result tbody tr').count(), 100, 'never more than a page is drawn')

  await run(page, 'SELECT 1 WHERE 0')
  await page.getByText('The query returned no rows').waitFor()
  t.same(problems, [])
  await context.close()
})

t.test('an error is shown with its position and advice, and marked in the editor', async (t) => {
  const { context, page } = await open(`${home}/sql`)
  await run(page, 'SELECT event\nFROM events\nGROUP event')
  const alert = page.getByRole('alert')
  await alert.getByText('Syntax error', { exact: true }).waitFor()
  await waitFor(async () => await page.evaluate(() => (globalThis as any).getSelection().toString()) === 'event')
  const caret = async (): Promise<number> => await page.getByLabel('Query', { exact: true }).evaluate((area: any) => area.selectionStart as number)
  t.equal(await caret(), 31)
  await page.getByLabel('Query', { exact: true }).press('Control+Home')
  await alert.getByRole('button', { name: 'Go to line 3, column 7' }).click()
  await waitFor(async () => await caret() === 31)
  await run(page, 'SELECT groupArray(number) FROM numbers(100000000) SETTINGS max_memory_usage = 10000000')
  await alert.getByText(/^Limit of memory\. Ask for fewer days/).waitFor()
  await run(page, 'TRUNCATE TABLE events')
  await alert.getByText(/^Analysts only read/).waitFor()
  await context.close()
})

t.test('a long query shows its progress, and cancelling ends it in ClickHouse', async (t) => {
  const { context, page, problems } = await open(`${home}/sql`)
  const running = async (): Promise<unknown[]> => await stack.select("SELECT 1 FROM system.processes WHERE query LIKE '%sipHash64(number))' AND user = 'analyst'")
  await run(page, LONG)
  await page.getByText(/[1-9][\d,]* of 1,000,000,000,000 rows read/).waitFor()
  t.equal((await running()).length, 1)
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('Cancelled: ClickHouse has stopped the query.').waitFor()
  await waitFor(async () => (await running()).length === 0)

  await run(page, LONG)
  await waitFor(async () => (await running()).length === 1)
  await page.getByRole('link', { name: 'Events', exact: true }).click()
  await waitFor(async () => (await running()).length === 0)
  t.same(problems, [])
  await context.close()
})

t.test('a query is saved, opened by its link with values and chart, changed, and deleted', async (t) => {
  const { context, page, problems } = await open(`${home}/sql`)
  await write(page, 'SELECT toDate(timestamp) AS day, count() AS events FROM events WHERE event = {name:String} GROUP BY day ORDER BY day')
  await page.getByLabel('name').fill(PAID)
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByText(/^2 rows · |^1 row · /).waitFor()
  await page.getByRole('button', { name: 'Line' }).click()
  await page.getByRole('button', { name: 'Save …' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill(`Paid by day ${HOSTILE}`)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: `Paid by day ${HOSTILE}`, level: 1 }).waitFor()
  t.match(page.url(), /\/sql\?saved=\d+$/)
  t.match(await stack.sql`SELECT parameters, chart FROM saved_queries WHERE project_id = ${stack.project}`, [{ parameters: { name: PAID }, chart: { kind: 'line' } }])

  const { context: other, page: link } = await open(new URL(page.url()).pathname.replace('/console', '') + new URL(page.url()).search)
  await link.getByRole('heading', { name: /^Paid by day/, level: 1 }).waitFor()
  t.equal(await link.getByLabel('name').inputValue(), PAID)
  t.equal(await link.getByRole('region', { name: 'Result' }).count(), 0, 'nothing runs by opening a link')
  await link.getByRole('button', { name: 'Run' }).click()
  await link.getByRole('img', { name: /^events along day/ }).waitFor()
  await link.getByLabel('name').fill('other')
  await link.getByText('Changed, not saved.').waitFor()
  await link.getByRole('link', { name: 'New query' }).click()
  await link.getByRole('dialog', { name: 'Leave without saving?' }).getByRole('button', { name: 'Cancel' }).click()
  t.equal(await link.getByLabel('name').inputValue(), 'other')
  await link.getByRole('button', { name: 'Save …' }).click()
  await link.getByRole('dialog').getByLabel('Name').fill('')
  await link.getByRole('dialog').getByLabel('Name').fill('Other')
  await link.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await link.getByRole('heading', { name: 'Other', level: 1 }).waitFor()
  await link.getByRole('button', { name: 'Save …' }).click()
  await link.getByLabel('Save as new').check()
  await link.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await link.getByRole('alert').getByText('There is already a saved query with this name.').waitFor()
  await link.keyboard.press('Escape')
  await link.getByRole('button', { name: 'Delete …' }).click()
  await link.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await link.getByRole('heading', { name: 'SQL', level: 1 }).waitFor()
  t.same(await stack.sql`SELECT 1 FROM saved_queries WHERE project_id = ${stack.project}`, [])
  await other.close()
  t.same(problems, [])
  await context.close()
})

t.test('a link holds the query itself, a sample is ready, and a result is downloaded', async (t) => {
  const { context, page, problems } = await open(`${home}/sql#` + writeLink('SELECT {sql:UInt8}', { sql: '3' }))
  t.equal(await page.getByLabel('Query', { exact: true }).inputValue(), 'SELECT {sql:UInt8}')
  t.equal(await page.locator('.parameters').getByLabel('sql').inputValue(), '3')
  t.equal(new URL(page.url()).hash, '', 'it is taken out of the address')
  await page.goto(`${page.url()}#${writeLink('SELECT {n:UInt8} + 1 AS next', { n: '4' })}`)
  await page.getByLabel('n UInt8').waitFor()
  t.equal(await page.getByLabel('Query', { exact: true }).inputValue(), 'SELECT {n:UInt8} + 1 AS next', 'also of a link that is pasted into the tab')
  const [csv] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()])
  t.equal(await readFile((await csv.path()), 'utf8'), '"next"\n5\n')
  const [parquet] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Parquet' }).click()])
  t.equal(parquet.suggestedFilename(), 'result.parquet')
  t.equal((await readFile(await parquet.path())).subarray(0, 4).toString(), 'PAR1')

  await page.getByRole('link', { name: 'Trend' }).click()
  const question = page.getByRole('dialog', { name: 'Replace your query?' })
  await question.getByRole('button', { name: 'Cancel' }).click()
  await whenClosed(question)
  t.equal(await page.getByLabel('Query', { exact: true }).inputValue(), 'SELECT {n:UInt8} + 1 AS next')
  await page.getByRole('link', { name: 'Trend' }).click()
  await question.getByRole('button', { name: 'Replace' }).click()
  await whenClosed(question)
  await waitFor(async () => /ORDER BY day WITH FILL/.test(await page.getByLabel('Query', { exact: true }).inputValue()))
  await page.getByLabel('event', { exact: false }).first().waitFor()
  await page.locator('.parameters').getByLabel('event').fill(PAID)
  await page.locator('.parameters').getByLabel('from').fill('2026-01-01')
  await page.locator('.parameters').getByLabel('to', { exact: false }).last().fill('2026-01-11')
  await page.getByRole('button', { name: 'Run' }).click()
  await page.getByText(/^10 rows · /).waitFor()
  t.same(problems, [])

  await page.getByRole('link', { name: 'SQL', exact: true }).click()
  await write(page, 'SELECT 1 AS secret')
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByLabel('Personal API key').fill(stack.personalApiKey)
  await page.keyboard.press('Enter')
  await page.getByLabel('Query', { exact: true }).waitFor()
  t.match(await page.getByLabel('Query', { exact: true }).inputValue(), /events_with_person/, 'nobody gets the draft of another')
  await context.close()
})

t.test('a key for one project, or without the scope, is offered no SQL', async (t) => {
  for (const [scopes, projectIds] of [[['*'], [stack.project]], [['event_definition:read'], null]] as const) {
    const { key } = await createPersonalKey(stack.sql, { email: 'admin@millrace.localhost', label: 'sql', scopes: [...scopes], projectIds: projectIds === null ? null : [...projectIds], expiresAt: null })
    const { context, page } = await open(`${home}/sql`, { key })
    await page.getByText('This page does not exist, or you have no access to it.').waitFor()
    t.equal(await page.getByRole('link', { name: 'SQL' }).count(), 0)
    await context.close()
  }
  const { key } = await createPersonalKey(stack.sql, { email: 'admin@millrace.localhost', label: 'sql', scopes: ['query:read'], projectIds: null, expiresAt: null })
  const { context, page } = await open(`${home}/sql`, { key })
  await run(page, 'SELECT 41 + 1')
  await page.getByRole('cell', { name: '42' }).waitFor()
  t.equal(await page.getByRole('button', { name: 'Save …' }).count(), 0, 'it may not save')
  await context.close()
})

t.test('the screen is accessible and fits, light and dark, from 360 to 2,560 pixels', async (t) => {
  const { context, page, problems } = await open(`${home}/sql`)
  await run(page, "SELECT toDate('2026-01-01') + number AS day, number AS n, number * 2 AS m, 'a text' AS word FROM numbers(30) -- all kinds")
  await page.getByText(/^30 rows · /).waitFor()
  await page.getByRole('button', { name: 'Line' }).click()
  await page.getByRole('img', { name: /^n, m along day/ }).waitFor()
  await page.getByText('events', { exact: true }).last().click()
  await checkPage(t, page, 'result')
  await page.setViewportSize({ width: 360, height: 900 })
  await run(page, 'SELECT 1 +')
  await page.getByRole('alert').waitFor()
  t.same(await findBarriers(page), [], 'error')
  t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollWidth <= (globalThis as any).innerWidth), 'they fit 360')
  t.same(problems, [])
  await context.close()
})
