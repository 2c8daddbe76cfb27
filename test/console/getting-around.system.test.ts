/** Stored events, persons by their last event and groups, found by filters and by Ctrl+K, in a zone of one's own. */
import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { askUntil, checkPage, openPage, openProject, logIn, send, settle, wasHacked, whenClosed } from './open-console.ts'

const HOSTILE = '<img src=x onerror="globalThis.hacked=1">'
const SCREEN_BYTES = 25_000

const screens = await openProject(t)
const { stack, home, open, browser } = screens
const berlin = await browser.newContext({ timezoneId: 'Europe/Berlin' })
t.teardown(async () => { await berlin.close() })

await send(stack, [
  ...Array.from({ length: 55 }, (_, index) => ({
    event: 'visited', distinct_id: `visitor ${index}`, timestamp: new Date(Date.now() - 60_000 + index * 1000)
  })),
  { event: HOSTILE, distinct_id: HOSTILE, properties: { plan: 'free' } },
  { event: '$identify', distinct_id: 'ann', properties: { $anon_distinct_id: 'device', $set: { email: 'ann@example.com', plan: 'pro' } } },
  { event: 'order paid', distinct_id: 'ann', properties: { amount: 12.5, $groups: { company: 'acme' } } },
  { event: '$groupidentify', distinct_id: 'ann', properties: { $group_type: 'company', $group_key: 'acme', $group_set: { name: 'Acme Ltd', seats: 5 } } }
])
await waitFor(async () => (await stack.select(`SELECT 1 FROM events WHERE project_id = ${stack.project} LIMIT 100`)).length === 59 &&
  (await stack.select(`SELECT 1 FROM persons FINAL WHERE project_id = ${stack.project}`)).length === 1 &&
  (await stack.sql`SELECT 1 FROM groups WHERE project_id = ${stack.project}`).length === 1 &&
  (await stack.sql`SELECT 1 FROM event_definitions WHERE project_id = ${stack.project} AND name = 'order paid'`).length === 1)

const call = async (method: string, path: string, body: object): Promise<any> =>
  await (await fetch(`${stack.url}/api${home}${path}`, {
    method, headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }, body: JSON.stringify(body)
  })).json()

t.test('stored events: fifty at once, older ones by the keyboard, filters in the address, one of them with its receipt', async (t) => {
  const { page, problems } = await open(`${home}/stored`)
  const rows = page.getByRole('region', { name: 'Stored events' }).locator('tbody tr')
  await rows.nth(49).waitFor()
  t.equal(await rows.count(), 50)
  t.equal(await page.getByRole('columnheader', { name: 'SDK' }).count(), 0, 'a column of nothing is left out')
  await page.setViewportSize({ width: 360, height: 800 })
  const table = page.getByRole('region', { name: 'Stored events' })
  const first = rows.first().locator('td').first()
  const before = (await first.boundingBox())!.x
  t.ok(await table.evaluate((region: any) => { region.scrollLeft = 60; return region.scrollLeft > 0 }), 'it is wider than a phone')
  t.equal((await first.boundingBox())!.x, before, 'the first column stays while the others scroll')
  await page.setViewportSize({ width: 1280, height: 720 })
  await page.getByRole('button', { name: 'Older' }).focus()
  await page.keyboard.press('Enter')
  await waitFor(async () => await rows.count() === 9)
  await page.getByRole('button', { name: 'Newer' }).focus()
  await page.keyboard.press('Enter')
  await rows.nth(49).waitFor()

  await page.getByLabel('Event', { exact: true }).fill('order paid')
  await waitFor(async () => await rows.count() === 1)
  await page.getByLabel('Property').fill('amount')
  await page.getByLabel('Value').fill('13')
  await page.getByText('No stored event matches.').waitFor()
  await page.getByLabel('Value').fill('12.5')
  await rows.first().waitFor()
  t.match(page.url(), /event=order\+paid&property=amount&value=12.5$/)
  const entry = page.getByRole('button', { name: 'order paid' })
  await entry.focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog')
  await dialog.getByText('It is stored and visible to queries.').waitFor()
  t.match(await dialog.getByLabel('As stored').innerText(), /"amount":12.5/)
  await checkPage(t, page, 'stored event')
  await page.keyboard.press('Escape')
  await whenClosed(dialog)
  await entry.click()
  await dialog.getByRole('link', { name: 'its events' }).click()
  await page.getByText(/^Only those of the person/).waitFor()
  await waitFor(async () => await rows.count() === 3)
  await page.getByRole('button', { name: 'Show all' }).click()
  await rows.nth(49).waitFor()
  t.notOk(await wasHacked(page))
  await checkPage(t, page, 'stored events')
  t.same(problems, [])
})

t.test('live events begin with what was stored before', async (t) => {
  const { page, problems } = await open(`${home}/live?event=order+paid`)
  await page.getByRole('heading', { name: 'Stored before' }).waitFor()
  await page.getByRole('button', { name: 'order paid' }).waitFor()
  t.same(problems, [])
})

t.test('everybody with events, the last seen first, by a property; also who was never identified', async (t) => {
  const { page, problems } = await open(`${home}/persons`)
  await page.getByText('All persons with events').waitFor()
  t.equal(await page.locator('tbody tr').count(), 50)
  await page.getByRole('link', { name: 'visitor 54', exact: true }).waitFor()
  await page.getByLabel('Property').fill('plan')
  await page.getByLabel('Value').fill('pro')
  await waitFor(async () => await page.locator('tbody tr').count() === 1)
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).waitFor()
  await page.getByText('Only persons whose plan is pro.').waitFor()
  t.equal(await page.getByText('All persons with events').count(), 0, 'it says who is listed')
  await checkPage(t, page, 'persons by property')
  await page.getByRole('link', { name: /^Show/ }).click()
  await page.getByRole('button', { name: 'order paid' }).waitFor()
  t.same(problems, [])
})

t.test('a group, its properties and its events', async (t) => {
  const { page, problems } = await open(`${home}/groups`)
  await page.getByRole('row', { name: /^acme Acme Ltd 2/ }).waitFor()
  await checkPage(t, page, 'groups')
  await page.getByRole('link', { name: 'acme' }).click()
  await page.getByRole('row', { name: /^seats 5/ }).waitFor()
  await page.getByRole('button', { name: 'order paid' }).waitFor()
  await waitFor(async () => await page.title() === 'acme · Groups · Millrace')
  await checkPage(t, page, 'group')
  t.same(problems, [])
})

t.test('Ctrl+K goes to screens, events, flags, persons and saved queries by keyboard; the tab says where one is', async (t) => {
  const flag = await call('POST', '/feature_flags/', { key: 'ann-only', filters: { groups: [{ rollout_percentage: 0 }] } })
  await call('POST', '/saved_queries/', { name: 'Orders of ann', query: 'SELECT 1' })
  const { page, problems } = await open(`${home}/stored`)
  await page.locator('tbody tr').first().waitFor()
  await page.keyboard.press('Control+k')
  const dialog = page.getByRole('dialog', { name: 'Go to' })
  await dialog.getByRole('combobox').waitFor()
  await page.keyboard.type('ann')
  await dialog.getByRole('option', { name: 'Orders of ann' }).waitFor()
  t.same((await dialog.getByRole('option').allInnerTexts()).map((each) => each.replace(/\s+/g, ' ')), ['ann-only flag', 'ann@example.com person', 'Orders of ann saved query'])
  await checkPage(t, page, 'go to')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowUp')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'ann-only', level: 1 }).waitFor()
  t.match(page.url(), new RegExp(`/flags/${flag.id}$`))
  await waitFor(async () => await page.title() === 'ann-only · Flags · Millrace')

  await page.keyboard.press('Meta+k')
  await dialog.getByRole('combobox').waitFor()
  await page.keyboard.type('usa')
  await dialog.getByRole('option', { name: 'Usage' }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor()
  await page.getByRole('button', { name: /^Go to/ }).click()
  await dialog.getByRole('combobox').waitFor()
  await page.keyboard.type('order paid')
  await askUntil(async () => {}, dialog.getByRole('option', { name: 'order paid event' }))
  for (const [word, place] of [['funnel', 'Questions screen'], ['errors', 'Dead letters screen'], ['amount', 'amount property']] as const) {
    await dialog.getByRole('combobox').fill(word)
    await askUntil(async () => {}, dialog.getByRole('option', { name: place }))
  }
  await dialog.getByRole('combobox').fill('no such thing')
  await dialog.getByText('Nothing found for no such thing.').waitFor()
  await page.keyboard.press('Escape')
  await whenClosed(dialog)
  t.same(problems, [])
})

t.test('a flag is turned off and on in the list, after a question', async (t) => {
  await call('POST', '/feature_flags/', { key: 'turned', filters: { groups: [{ rollout_percentage: 100 }] } })
  const { page, problems } = await open(`${home}/flags?search=turned`)
  const turn = page.getByRole('switch', { name: 'turned is on' })
  await turn.focus()
  await page.keyboard.press('Space')
  await page.getByRole('dialog').getByRole('button', { name: 'Turn off' }).click()
  await page.getByRole('switch', { name: 'turned is off', checked: false }).waitFor()
  await checkPage(t, page, 'switch')
  await page.getByRole('switch').click()
  await page.getByText('It will be for: Everyone').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Turn on' }).click()
  await turn.waitFor()
  t.same(problems, [])
})

t.test('times are those of the project until another zone is chosen, which stays; UTC is said, too', async (t) => {
  const { page, problems } = await openPage(berlin, stack.url, `${home}/stored?event=order+paid`)
  await logIn(page, stack.personalApiKey)
  problems.length = 0
  const time = page.locator('tbody time')
  await page.getByRole('columnheader', { name: 'Time (UTC)' }).waitFor()
  await time.waitFor()
  const utc = await time.innerText()
  await page.getByLabel('Times in').selectOption('Europe/Berlin')
  await page.getByRole('columnheader', { name: 'Time (Berlin)' }).waitFor()
  t.not(await time.innerText(), utc)
  t.equal(await time.getAttribute('title'), `${utc} UTC`)
  await page.reload()
  await page.getByRole('columnheader', { name: 'Time (Berlin)' }).waitFor()
  await checkPage(t, page, 'in another zone')
  t.same(problems, [])
})

/** How far a page moved while it loaded (layout shift, from 0 to 1), and what else one sees of it. */
async function look (path: string, width: number): Promise<{ shift: number, isWider: boolean, brokenTimes: number }> {
  const watched = await open('/nowhere')
  const { page } = watched
  await page.setViewportSize({ width, height: 800 })
  await page.addInitScript(() => {
    const window = globalThis as any
    window.shift = 0
    const add = (list: any): void => { for (const { value } of list.getEntries()) window.shift += value }
    new window.PerformanceObserver(add).observe({ type: 'layout-shift', buffered: true })
  })
  await page.goto(`${stack.url}/console${path}`)
  await page.locator('main').getByRole('heading', { level: 1 }).waitFor()
  await settle(watched)
  const seen = await page.evaluate(() => {
    const { document, innerWidth, shift } = globalThis as any
    return {
      shift,
      isWider: document.documentElement.scrollWidth > innerWidth,
      brokenTimes: [...document.querySelectorAll('td time')].filter((time: any) => time.getClientRects().length > 1).length
    }
  })
  await page.close()
  return seen
}

t.test('no screen moves much while it loads, is wider than the window, or breaks a time', async (t) => {
  const { id: experiment } = await call('POST', '/experiments/', {
    name: 'One page', feature_flag_key: 'pages', start_date: new Date(Date.now() - 86_400_000).toISOString(), filters: { insight: 'FUNNELS', events: [{ id: 'order paid' }] },
    secondary_metrics: [{ name: 'Spent', kind: 'mean', event: 'order paid', property: 'amount' }, { kind: 'funnel', event: 'visited' }]
  })
  const { id: question } = await call('POST', '/questions/', {
    name: 'Visits', definition: { kind: 'trend', version: 1, range: { last: 7, unit: 'day' }, interval: 'day', series: [{ event: 'visited', measure: 'people' }, { event: 'order paid', measure: 'events' }] }
  })
  const paths = ['stored', 'persons', 'groups', 'flags', 'events', 'usage', 'connect', 'warnings', `experiments/${experiment}`, `questions/${question}`].map((screen) => `${home}/${screen}`)
  for (const width of [390, 1280]) {
    for (const path of [...paths, '/keys']) {
      const { shift, isWider, brokenTimes } = await look(path, width)
      t.ok(shift < 0.1, `${path} at ${width} moved by ${shift}`)
      t.notOk(isWider, `${path} at ${width}`)
      t.equal(brokenTimes, 0, `${path} at ${width}`)
    }
  }
})

t.test('on a notebook the whole menu is in sight, and a page of few lines does not scroll', async (t) => {
  const { page } = await open(`${home}/boards`)
  await page.setViewportSize({ width: 1280, height: 800 })
  const last = await page.getByRole('navigation', { name: 'Screens' }).getByRole('link').last().boundingBox()
  t.ok(last !== null && last.y + last.height <= 800, JSON.stringify(last))
  t.ok(await page.evaluate(() => (globalThis as any).document.documentElement.scrollHeight <= 800))
})

t.test('new objects have their names in the tab, too; times in sentences show UTC on hover', async (t) => {
  const { page } = await open(`${home}/questions/new/funnel`)
  await waitFor(async () => await page.title() === 'New funnel · Questions · Millrace')
  await page.goto(`${stack.url}/console${home}/persons?search=ann%40example.com`)
  await page.getByRole('link', { name: 'ann@example.com', exact: true }).click()
  const since = page.locator('dl time').first()
  await since.waitFor()
  t.match(await since.getAttribute('title'), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/)
})

t.test('each of the screens is small', async (t) => {
  for (const screen of ['stored', 'groups', 'persons', 'live']) {
    const { page } = await open(`${home}/${screen}`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    const sizes = await page.evaluate(() => (globalThis as any).performance.getEntriesByType('resource')
      .filter((each: any) => /\/assets\/(?!main)/.test(each.name)).map((each: any) => each.encodedBodySize) as number[])
    t.ok(sizes.reduce((sum, each) => sum + each, 0) < SCREEN_BYTES + 20_000, `${screen} ${sizes.join()}`)
    t.ok(sizes.every((each) => each < SCREEN_BYTES), screen)
    await page.close()
  }
})
