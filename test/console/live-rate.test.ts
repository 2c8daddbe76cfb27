/** A thousand live events a second on the screen: no frame has to wait for the page, and its memory stays. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { prepareLoad } from '../../bench/load/load-generator.ts'
import { waitFor } from '../support/wait-for.ts'
import { openProject } from './open-console.ts'
import { PageObserver, SLOW_FRAME_MS } from './page-work.ts'

const SECONDS = 8
const EVENTS_PER_SECOND = 1000
const EVENTS_PER_REQUEST = 50

/** The page keeps 2,000 events, which it has after some seconds. */
const WARM_UP_SECONDS = 6

/** Opens a row by hand: between pressing and releasing the button hundreds of events come. */
async function openRow (page: Page): Promise<void> {
  const button = page.locator('.live tbody tr').nth(5).getByRole('button')
  // A row that goes while it is measured has no box.
  const box = await waitFor(async () => await button.boundingBox())
  await page.mouse.move(box.x + 5, box.y + box.height / 2)
  await page.mouse.down()
  await page.waitForTimeout(400)
  await page.mouse.up()
  await page.getByRole('dialog').getByLabel('As sent').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: /^Continue: [\d,]+ held back/ }).click()
}

t.test('a thousand live events a second', async (t) => {
  const { stack, open, home } = await openProject(t)
  const requestsPerSecond = EVENTS_PER_SECOND / EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port: Number(new URL(stack.url).port), path: '/batch/', apiKey: stack.projectApiKey, seed: 21,
    requests: (SECONDS + WARM_UP_SECONDS + 5) * requestsPerSecond, ratePerSecond: requestsPerSecond,
    eventsPerRequest: EVENTS_PER_REQUEST, connections: 4, gzip: true
  })
  const { page, problems } = await open(`${home}/live`)
  await page.getByText('Watching.').waitFor()
  const observer = await PageObserver.open(page)
  const isOver = load.run()
  await page.waitForTimeout(1000)
  await openRow(page)
  await page.waitForTimeout(WARM_UP_SECONDS * 1000)
  const before = await observer.readMemory()

  await observer.begin()
  const { failed, requests } = await isOver
  const work = await observer.end()
  const counts = page.locator('.toolbar').getByText(/[\d,]+ events$/)
  await waitFor(async () => (await counts.innerText()).endsWith(`${(requests * EVENTS_PER_REQUEST).toLocaleString('en')} events`))
  const after = await observer.readMemory()

  t.comment(JSON.stringify({ work, before, after }))
  t.equal(failed, 0)
  t.ok(work.seconds > SECONDS / 2 && work.tasks > 100 && work.frames.count > 10, 'it was looked at')
  t.ok(work.longestTaskMs <= SLOW_FRAME_MS, `the longest task takes ${work.longestTaskMs} ms of CPU`)
  t.ok(after.heapBytes < before.heapBytes * 1.3, `${before.heapBytes} bytes, then ${after.heapBytes}`)
  t.ok(after.nodes < before.nodes * 1.3 && after.listeners < before.listeners * 1.3, `${before.nodes} nodes, then ${after.nodes}`)
  t.ok(await page.locator('.live tbody tr').count() > 10)
  t.same(problems, [])

  await observer.begin()
  await page.evaluate(() => { for (const from = performance.now(); performance.now() - from < 400;); })
  t.equal((await observer.end()).longTasks, 1, 'a long task would have been seen')
})
