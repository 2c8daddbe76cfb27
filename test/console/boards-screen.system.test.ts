/** Boards in the console: put together, moved, kept as files, shared by a link that ends, in a real browser. */
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import t from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { checkPage, openPage, openProject, send } from './open-console.ts'

const { stack, browser, open, home } = await openProject(t)

await send(stack, [1, 2, 3].map((id) => ({ event: '=paid', distinct_id: `p${id}`, properties: { amount: id } })))
await waitFor(async () => Number((await stack.select<{ n: string }>(`SELECT count() AS n FROM events WHERE project_id = ${stack.project}`))[0]!.n) === 3)

const base = `${stack.url}/api/projects/${stack.project}`
async function create (path: string, body: object): Promise<number> {
  const headers = { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }
  return (await (await fetch(`${base}/${path}/`, { method: 'POST', headers, body: JSON.stringify(body) })).json() as { id: number }).id
}

const range = { last: 2, unit: 'day' }
await create('questions', { name: 'Paid by day', definition: { kind: 'trend', version: 1, range, series: [{ event: '=paid' }] } })
await create('questions', { name: 'Who pays twice', definition: { kind: 'funnel', version: 1, range, steps: [{ event: '=paid' }, { event: '=paid' }] } })
await create('saved_queries', { name: 'Large numbers', query: 'SELECT 18446744073709551615 AS n, \'=1+1\' AS s' })

const names = async (page: Page): Promise<string[]> => await page.locator('.tile h2').allInnerTexts()

async function add (page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: 'Add …' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByLabel('What').selectOption({ label: name })
  await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

async function download (page: Page, button: string): Promise<Buffer> {
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: button }).click()])
  return await readFile(await file.path())
}

t.test('a board is put together with the keyboard, its parts change places, are kept as files, and are shared', async (t) => {
  const { page, problems } = await open(`${home}/boards`)
  await page.getByText('There are no boards yet').waitFor()
  await page.getByRole('button', { name: 'New board …' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByLabel('Name').fill('Shop')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Shop', level: 1 }).waitFor()
  await add(page, 'Paid by day')
  await add(page, 'Who pays twice')
  await add(page, 'Large numbers (saved query)')
  await page.getByRole('img', { name: /^=paid along time/ }).waitFor()
  await page.getByRole('img', { name: /^2 steps: 1\. =paid: 3/ }).waitFor()
  t.match(await page.getByRole('status').filter({ hasText: 'as of' }).allInnerTexts(), [/^as of \d\d:\d\d \w+$/, /^as of/])
  await page.getByRole('region', { name: 'Result' }).waitFor()
  t.same(await names(page), ['Paid by day', 'Who pays twice', 'Large numbers'])

  const earlier = page.getByRole('region', { name: 'Large numbers', exact: true }).getByRole('button', { name: 'Move left' })
  await earlier.focus()
  await page.keyboard.press('Enter')
  await page.getByText('Moved to place 2 of 3.').waitFor()
  await waitFor(async () => await earlier.evaluate((element: any) => element.ownerDocument.activeElement === element))
  await waitFor(async () => (await names(page)).join() === 'Paid by day,Large numbers,Who pays twice')
  const mouse = page.getByRole('region', { name: 'Who pays twice', exact: true }).getByRole('button', { name: 'Move left' })
  // The second press comes before the answer to the first.
  await mouse.evaluate((button: any) => { button.click(); button.click() })
  await waitFor(async () => (await names(page)).join() === 'Who pays twice,Paid by day,Large numbers')

  t.match(String(await download(page, 'CSV of Paid by day')), /^"from","'=paid"\n"\d{4}-\d\d-\d\d",0\n"\d{4}-\d\d-\d\d",3\n"all of it",3\n$/)
  t.equal(String(await download(page, 'CSV of Large numbers')), '"n","s"\n18446744073709551615,"\'=1+1"\n')
  for (const name of ['Paid by day', 'Who pays twice', 'Large numbers']) {
    const png = await download(page, `PNG of ${name}`)
    t.equal(png.subarray(1, 4).toString(), 'PNG', name)
    t.ok(png.readUInt32BE(16) === 1600 && png.length > 5000, `${png.length} bytes`)
  }
  await page.setViewportSize({ width: 1280, height: 800 })
  const tops = await page.locator('.tile').evaluateAll((tiles: any[]) => tiles.map((tile) => tile.getBoundingClientRect().top))
  t.equal(tops[0], tops[1], 'two answers side by side on a small notebook')
  await checkPage(t, page, 'a board')

  await page.getByRole('button', { name: 'Share …' }).click()
  await page.getByRole('button', { name: 'Make a link' }).click()
  const link = await page.getByLabel('Link', { exact: true }).innerText()
  t.match(link, /\/console\/shared#phl_\w{43}$/)
  const stranger = await browser.newContext()
  const shared = await openPage(stranger, stack.url, `/shared#${link.split('#')[1]!}`)
  await shared.page.getByRole('heading', { name: 'Shop', level: 1 }).waitFor()
  await shared.page.getByRole('img', { name: /^=paid along time/ }).waitFor()
  t.equal(await shared.page.title(), 'Shop · Millrace')
  t.equal(await shared.page.getByRole('button', { name: /Move|Remove|Share|dropped out/ }).count(), 0)
  t.equal(await shared.page.getByText('The SQL of this answer').count(), 0)
  await checkPage(t, shared.page, 'a shared board')
  await shared.page.setViewportSize({ width: 390, height: 800 })
  const steps = shared.page.getByRole('img', { name: /^2 steps/ })
  await t.resolves(waitFor(async () => await steps.evaluate((svg: any) => svg.clientWidth <= svg.parentElement.clientWidth && svg.clientWidth > 280)), 'the bars fit on a phone')
  await page.getByRole('button', { name: /^End phl_/ }).click()
  await page.getByRole('button', { name: /^End phl_/ }).waitFor({ state: 'detached' })
  t.same([problems, shared.problems], [[], []])
  await shared.page.reload()
  await shared.page.getByRole('alert').getByText('The link has expired').waitFor()
  await stranger.close()
  await page.close()
})

t.test('a question is put on a board from its own page', async (t) => {
  const question = await create('questions', { name: 'Three', definition: { kind: 'trend', version: 1, range, series: [{ event: '=paid' }] } })
  const board = await create('boards', { name: 'Empty' })
  const { page } = await open(`${home}/questions/${question}`)
  await page.getByRole('button', { name: 'Add to a board …' }).click()
  await page.getByRole('dialog').getByLabel('Board').selectOption({ label: 'Empty' })
  await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click()
  await page.getByRole('heading', { name: 'Empty', level: 1 }).waitFor()
  t.ok(page.url().endsWith(`/boards/${board}`))
  await waitFor(async () => (await names(page)).join() === 'Three')
  await page.goto(`${stack.url}/console${home}/questions/${question}`)
  await page.getByRole('button', { name: 'Add to a board …' }).click()
  await page.getByRole('dialog').getByLabel('Board').selectOption('A new board')
  await page.getByRole('dialog').getByLabel('Name of the new board').fill('Made on the way')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Made on the way', level: 1 }).waitFor()
  await waitFor(async () => (await names(page)).join() === 'Three')
  await page.close()
})

t.test('a board that somebody else has changed meanwhile is not overwritten', async (t) => {
  const [first, second] = [await create('questions', { name: 'One', definition: { kind: 'trend', version: 1, range, series: [{ event: '=paid' }] } }),
    await create('saved_queries', { name: 'Two', query: 'SELECT 2 AS two' })]
  const id = await create('boards', { name: 'Shared', tiles: [{ kind: 'question', id: first }, { kind: 'saved_query', id: second }] })
  const { page } = await open(`${home}/boards/${id}`)
  await waitFor(async () => (await names(page)).join() === 'One,Two')
  const headers = { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }
  const changed = await fetch(`${base}/boards/${id}/`, { method: 'PATCH', headers, body: JSON.stringify({ tiles: [{ kind: 'saved_query', id: second }] }) })
  t.equal(changed.status, 200)

  await page.getByRole('region', { name: 'Two', exact: true }).getByRole('button', { name: 'Move left' }).click()
  await page.getByRole('alert').getByText('was changed since you read it').waitFor()

  t.same(await names(page), ['One', 'Two'], 'what was seen stays')
  const { tiles } = await (await fetch(`${base}/boards/${id}/`, { headers })).json() as { tiles: object[] }
  t.same(tiles, [{ kind: 'saved_query', id: second }])
  await page.getByRole('button', { name: 'Try again' }).click()
  await waitFor(async () => (await names(page)).join() === 'Two')

  const [third, gone] = [await create('saved_queries', { name: 'Three', query: 'SELECT 3 AS three' }), await create('saved_queries', { name: 'Gone', query: 'SELECT 4 AS four' })]
  await fetch(`${base}/boards/${id}/`, { method: 'PATCH', headers, body: JSON.stringify({ tiles: [second, third].map((each) => ({ kind: 'saved_query', id: each })) }) })
  await add(page, 'One')
  await page.getByRole('alert').getByText('was changed since you read it').waitFor()
  await page.getByRole('region', { name: 'Two', exact: true }).getByRole('button', { name: 'Remove' }).click()
  // The change that failed is made with the next one.
  await waitFor(async () => (await names(page)).join() === 'Three,One')

  await page.getByRole('button', { name: 'Add …' }).click()
  await page.getByRole('dialog').getByLabel('What').selectOption({ label: 'Gone (saved query)' })
  await fetch(`${base}/saved_queries/${gone}/`, { method: 'DELETE', headers })
  await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click()
  await page.getByRole('alert').getByText('The project has no saved query').waitFor()
  await page.getByRole('region', { name: 'Three', exact: true }).getByRole('button', { name: 'Remove' }).click()
  // A change that is refused stops no later one.
  await waitFor(async () => (await names(page)).join() === 'One')

  const lost = await create('saved_queries', { name: 'Lost', query: 'SELECT 5 AS five' })
  await fetch(`${base}/boards/${id}/`, { method: 'PATCH', headers, body: JSON.stringify({ description: 'of somebody else' }) })
  await add(page, 'Lost (saved query)')
  await page.getByRole('alert').getByText('was changed since you read it').waitFor()
  await fetch(`${base}/saved_queries/${lost}/`, { method: 'DELETE', headers })
  await page.getByRole('region', { name: 'One', exact: true }).getByRole('button', { name: 'Remove' }).click()
  // Of two that wait, the first is refused, and the other is made.
  await page.getByRole('alert').getByText('The project has no saved query').waitFor()
  await page.getByText('Nothing is on this board yet.').waitFor()
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('alert').waitFor({ state: 'detached' })

  await page.getByRole('button', { name: 'Rename …' }).click()
  const dialog = page.getByRole('dialog', { name: 'Rename the board' })
  await dialog.getByLabel('Name').fill('Ours')
  await fetch(`${base}/boards/${id}/`, { method: 'PATCH', headers, body: JSON.stringify({ name: 'Theirs', description: 'said later' }) })
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByRole('alert').getByText('was changed since you read it').waitFor()
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('heading', { name: 'Ours', level: 1 }).waitFor()
  await page.getByText('said later').waitFor()
  await page.close()
})
