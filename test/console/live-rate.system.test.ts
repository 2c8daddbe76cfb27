/** A thousand live events a second on the screen: all are counted, few are drawn, and its memory stays. */
import type { CDPSession, Page } from 'playwright-core'
import t from 'tap'
import { prepareLoad } from '../../bench/load/load-generator.ts'
import { waitFor } from '../support/wait-for.ts'
import { openProject, send } from './open-console.ts'

const SECONDS = 6
const EVENTS_PER_SECOND = 1000
const EVENTS_PER_REQUEST = 50

/** Sent while a row is pressed. */
const HELD_BACK = Array.from({ length: 10 }, () => ({ event: 'held back' }))

/** The page keeps 2,000 events. */
const KEPT = 2000

/** Rows of the table that are in the page: those in sight, and some beyond both edges. */
const MAX_DRAWN = 60

/** What a page holds after garbage collection. */
async function readMemory (session: CDPSession): Promise<{ heapBytes: number, nodes: number, listeners: number }> {
  // What a first collection frees may hold what a second one finds.
  for (let time = 0; time < 2; time++) await session.send('HeapProfiler.collectGarbage')
  const { metrics } = await session.send('Performance.getMetrics')
  const valueOf = (name: string): number => metrics.find((metric) => metric.name === name)!.value
  return { heapBytes: valueOf('JSHeapUsedSize'), nodes: valueOf('Nodes'), listeners: valueOf('JSEventListeners') }
}

/** Opens a row by hand: between pressing and releasing the button events come. */
async function openRow (page: Page, comeMeanwhile: () => Promise<void>): Promise<void> {
  await page.locator('.live tbody button').first().waitFor()
  // The table stays where it is; a row that is measured may be further down when it is pressed.
  const { x, y, height } = (await page.getByRole('region', { name: 'Live events' }).boundingBox())!
  await page.mouse.move(x + 5, y + height / 2)
  await page.mouse.down()
  await comeMeanwhile()
  const goOn = page.getByRole('button', { name: /^Continue: [\d,]+ held back/ })
  await goOn.waitFor()
  await page.mouse.up()
  await page.getByRole('dialog').getByLabel('As stored').waitFor()
  await page.keyboard.press('Escape')
  await goOn.click()
}

t.test('a thousand live events a second', async (t) => {
  const { stack, open, home } = await openProject(t)
  const requestsPerSecond = EVENTS_PER_SECOND / EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port: Number(new URL(stack.url).port), path: '/batch/', apiKey: stack.projectApiKey, seed: 21,
    requests: SECONDS * requestsPerSecond, ratePerSecond: requestsPerSecond,
    eventsPerRequest: EVENTS_PER_REQUEST, connections: 4, gzip: true
  })
  const { page, problems } = await open(`${home}/live`)
  await page.getByText('Watching.').waitFor()
  const session = await page.context().newCDPSession(page)
  await Promise.all([session.send('Performance.enable'), session.send('HeapProfiler.enable')])
  const isOver = load.run()
  // On a slow machine the load may be over by then.
  await openRow(page, async () => await send(stack, HELD_BACK))
  const counts = page.locator('.toolbar').getByText(/[\d,]+ events$/)
  const counted = async (): Promise<number> => Number(/([\d,]+) events$/.exec(await counts.innerText())![1]!.replaceAll(',', ''))
  await waitFor(async () => await counted() > 1.5 * KEPT)
  const before = await readMemory(session)

  const { failed, requests } = await isOver
  await waitFor(async () => await counted() === requests * EVENTS_PER_REQUEST + HELD_BACK.length)
  const after = await readMemory(session)

  t.comment(JSON.stringify({ before, after }))
  t.equal(failed, 0)
  t.ok(after.heapBytes < before.heapBytes * 1.3, `${before.heapBytes} bytes, then ${after.heapBytes}`)
  t.ok(after.nodes < before.nodes * 1.3 && after.listeners < before.listeners * 1.3, `${before.nodes} nodes, then ${after.nodes}`)
  const drawn = await page.locator('.live tbody tr').count()
  t.ok(drawn > 10 && drawn < MAX_DRAWN, `${drawn} rows are drawn`)
  t.same(problems, [])
})
