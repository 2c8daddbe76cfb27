import { setTimeout as delay } from 'node:timers/promises'
import type { BrowserContext, Page } from 'playwright-core'
import { logIn, openPage } from '../../test/console/open-console.ts'
import { countFrames, type Frames, type PageMemory, PageObserver, type PageWork, SLOW_FRAME_MS } from '../../test/console/page-work.ts'
import { openBrowser } from '../../test/sdk/open-page.ts'
import type { Stack } from '../../test/start-stack.ts'
import { prepareLoad, type PreparedLoad } from '../load/load-generator.ts'
import { median, type BenchContext, type Figure, type Question } from '../question.ts'
import { countEvents, waitUntilVisible } from '../read-stack.ts'

const EVENTS_PER_SECOND = 1000
const EVENTS_PER_REQUEST = 50
const REQUESTS_PER_SECOND = EVENTS_PER_SECOND / EVENTS_PER_REQUEST
const MINUTES = 10

/** One look at the page, and at its memory after it. */
interface Look { work: PageWork, idle: Frames, memory: PageMemory }

/** Whether the screen of live events keeps up, in a real browser, and whether its memory stays. */
export const live: Question = {
  name: 'live',
  isLong: true,
  asks: `${EVENTS_PER_SECOND} live events/s on a screen for ${MINUTES} minutes: its longest task, its frames beside those of an empty page, its memory`,
  async answer (context) {
    const pieces = context.quick ? 3 : MINUTES
    const pieceSeconds = context.quick ? 10 : 60
    const { browser, close } = await openBrowser()
    try {
      const empty = await (await browser.newContext()).newPage()
      const screen = await openScreen(await browser.newContext(), context.stack)
      const observer = await PageObserver.open(screen)
      const looks: Look[] = []
      let next = prepare(context, pieceSeconds, 0)
      for (let piece = 0; piece <= pieces; piece++) {
        const load = await next
        const before = await countEvents(context.stack)
        // The first one warms up, and the next one is prepared while this one is sent.
        await Promise.all([observer.begin(), empty.evaluate(countFrames)])
        const running = load.run()
        await delay(pieceSeconds * 500)
        if (piece < pieces) next = prepare(context, pieceSeconds, piece + 1)
        const { failed } = await running
        if (failed > 0) throw new Error(`${failed} requests failed`)
        const work = await observer.end()
        const idle = await empty.evaluate(() => (globalThis as any).endFrames() as Frames)
        const memory = await observer.readMemory()
        await waitUntilVisible(context.stack, before, pieceSeconds * EVENTS_PER_SECOND)
        if (piece > 0) looks.push({ work, idle, memory })
        process.stderr.write(`  ${piece * pieceSeconds} s: ${JSON.stringify({ work, idle, memory })}\n`)
      }
      return toFigures(looks, await readShown(screen))
    } finally {
      await close()
    }
  }
}

async function openScreen (context: BrowserContext, stack: Stack): Promise<Page> {
  const { page } = await openPage(context, stack.url, '/projects/1/live')
  await logIn(page, stack.personalApiKey)
  await page.getByText('Watching.').waitFor()
  return page
}

async function prepare ({ stack, port }: BenchContext, seconds: number, piece: number): Promise<PreparedLoad> {
  return await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: 8000 + piece, requests: seconds * REQUESTS_PER_SECOND,
    eventsPerRequest: EVENTS_PER_REQUEST, connections: 4, gzip: true, ratePerSecond: REQUESTS_PER_SECOND
  })
}

/** What the screen says of what it shows: `Sampled: 1,000 of 2,000 events`, or `2,000 events`. */
async function readShown (page: Page): Promise<number> {
  const text = await page.locator('.toolbar').getByText(/[\d,]+ events$/).innerText()
  const [shown, matched = shown] = [...text.matchAll(/[\d,]+/g)].map(([digits]) => Number(digits.replaceAll(',', '')))
  return shown! / matched!
}

function toFigures (looks: readonly Look[], shown: number): Figure[] {
  const share = ({ slow, count }: Frames): number => 100 * slow / Math.max(1, count)
  const [first, last] = [looks[0]!.memory, looks.at(-1)!.memory]
  const ofAll = (read: (look: Look) => number): number => median(looks.map(read))
  return [
    {
      name: 'longest task, CPU', value: Math.max(...looks.map(({ work }) => work.longestTaskMs)), unit: 'ms',
      target: { atMost: SLOW_FRAME_MS }
    },
    { name: 'longest task, CPU, median of the minutes', value: ofAll(({ work }) => work.longestTaskMs), unit: 'ms' },
    { name: 'main thread', value: ofAll(({ work }) => work.busy * 100), unit: '% of a core' },
    {
      name: `frames over ${SLOW_FRAME_MS} ms by the clock`, value: ofAll(({ work }) => share(work.frames)), unit: '%',
      reference: { name: 'empty page', value: ofAll(({ idle }) => share(idle)) }
    },
    { name: 'events shown', value: 100 * shown, unit: '%' },
    {
      name: 'heap after garbage collection, last', value: last.heapBytes / 1e6, unit: 'MB',
      reference: { name: 'first', value: first.heapBytes / 1e6 }, target: { atMost: 1.1 }
    },
    { name: 'nodes, last', value: last.nodes, unit: '', reference: { name: 'first', value: first.nodes }, target: { atMost: 1.1 } }
  ]
}
