/**
 * What a page costs its browser while something goes on: the tasks of its main thread by CPU time, its frames by the
 * wall clock, and what stays in memory after garbage collection. CPU time is what the page is answerable for: on a busy
 * machine any page waits for its turn, and its frames with it.
 */
import type { CDPSession, Page } from 'playwright-core'

/** A frame that takes longer is seen, in milliseconds. */
export const SLOW_FRAME_MS = 50

export interface PageWork {
  seconds: number
  tasks: number
  /** CPU time of the longest task of the main thread: on any machine a frame has to wait so long for it. */
  longestTaskMs: number
  /** Tasks above {@link SLOW_FRAME_MS}. */
  longTasks: number
  /** CPU time of the main thread, as a share of the time that passed. */
  busy: number
  frames: Frames
}

/** Frames by the wall clock. */
export interface Frames { count: number, slow: number, longestMs: number }

/** What a page holds after garbage collection. */
export interface PageMemory { heapBytes: number, nodes: number, listeners: number }

interface TraceEvent { name: string, pid: number, tid: number, dur?: number, tdur?: number, args: { name?: string } }

/** Watches the work of one page, in pieces; a piece ends where the next begins. */
export class PageObserver {
  readonly #page: Page
  readonly #session: CDPSession
  #events: TraceEvent[] = []
  #startedAt = 0

  private constructor (page: Page, session: CDPSession) {
    this.#page = page
    this.#session = session
  }

  static async open (page: Page): Promise<PageObserver> {
    const session = await page.context().newCDPSession(page)
    await Promise.all([session.send('Performance.enable'), session.send('HeapProfiler.enable')])
    const observer = new PageObserver(page, session)
    session.on('Tracing.dataCollected', ({ value }) => { observer.#events.push(...value as unknown as TraceEvent[]) })
    return observer
  }

  async begin (): Promise<void> {
    this.#events = []
    await this.#session.send('Tracing.start', {
      transferMode: 'ReportEvents',
      traceConfig: { recordMode: 'recordUntilFull', includedCategories: ['toplevel', '__metadata'] }
    })
    this.#startedAt = performance.now()
    await this.#page.evaluate(countFrames)
  }

  async end (): Promise<PageWork> {
    const frames = await this.#page.evaluate(() => (globalThis as any).endFrames() as Frames)
    const seconds = (performance.now() - this.#startedAt) / 1000
    const complete = new Promise<void>((resolve) => this.#session.once('Tracing.tracingComplete', () => resolve()))
    await this.#session.send('Tracing.end')
    await complete
    const times = await this.#taskTimes()
    return {
      seconds,
      tasks: times.length,
      longestTaskMs: Math.max(0, ...times),
      longTasks: times.filter((ms) => ms > SLOW_FRAME_MS).length,
      busy: times.reduce((sum, ms) => sum + ms, 0) / 1000 / seconds,
      frames
    }
  }

  async readMemory (): Promise<PageMemory> {
    // What a first collection frees may hold what a second one finds.
    for (let time = 0; time < 2; time++) await this.#session.send('HeapProfiler.collectGarbage')
    const { metrics } = await this.#session.send('Performance.getMetrics')
    const valueOf = (name: string): number => metrics.find((metric) => metric.name === name)!.value
    return { heapBytes: valueOf('JSHeapUsedSize'), nodes: valueOf('Nodes'), listeners: valueOf('JSEventListeners') }
  }

  /** CPU time of each task of the main threads of pages, in milliseconds. */
  async #taskTimes (): Promise<number[]> {
    const main = new Set(this.#events.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid} ${tid}`))
    return this.#events
      .filter(({ name, pid, tid, tdur }) => name.endsWith('RunTask') && tdur !== undefined && main.has(`${pid} ${tid}`))
      .map(({ tdur }) => tdur! / 1000)
  }
}

/** Counts the frames of a page until it is asked for them; runs in the page. */
export function countFrames (): void {
  const frames = { count: 0, slow: 0, longestMs: 0 }
  let last = performance.now()
  let isOver = false
  const next = (): void => {
    const now = performance.now()
    frames.count++
    if (now - last > 50) frames.slow++
    frames.longestMs = Math.max(frames.longestMs, now - last)
    last = now
    if (!isOver) (globalThis as any).requestAnimationFrame(next)
  }
  ;(globalThis as any).requestAnimationFrame(next)
  ;(globalThis as any).endFrames = () => {
    isOver = true
    return frames
  }
}
