/**
 * Draws the pictures of `docs/run/console.md` from a running system, with events, people and dead letters made for it:
 *
 *     npx node test/console/draw-screens.ts
 *
 * With a folder, every screen is drawn there to be looked at, in each of `LOOKS`, and screens of an empty project, too:
 *
 *     npx node test/console/draw-screens.ts /tmp/screens
 */
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { openBrowser } from '../sdk/open-page.ts'
import { startStack, type Stack } from '../start-stack.ts'
import { type Planted, plantForPictures, sendUntil } from './plant-for-pictures.ts'

const IMAGES = path.join(import.meta.dirname, '..', '..', 'docs', 'run', 'images')
const PICTURE = { width: 1180, height: 700 }
const SETTLED_MS = 1500

/** A telephone, a notebook, a large screen. */
const LOOKS = [{ width: 1280, height: 800 }, { width: 390, height: 844 }, { width: 2560, height: 1300 }]
  .flatMap((size) => (['light', 'dark'] as const).map((colorScheme) => ({ ...size, colorScheme })))

/** What a project without events shows: the screens below it. */
const EMPTY = [
  'questions', 'boards', 'stored', 'groups', 'live', 'find', 'find?distinct_id=buyer+1', 'dead-letters', 'flags', 'experiments', 'events', 'properties', 'schemas', 'rules', 'persons', 'connect', 'imports', 'imports/new', 'usage', 'warnings'
]

interface Drawing {
  /** Name of the file, without its ending. */
  name: string
  path: (planted: Planted) => string
  /** Shown when there is something to see. */
  until: string
  /** It is a picture of the documentation. */
  isCommitted?: boolean
  /** In pixels, for what does not fit the others. */
  height?: number
  /** Before the picture, such as a click. */
  prepare?: (page: Page) => Promise<void>
}

const DRAWINGS: Drawing[] = [
  { name: 'health', path: () => '/health', until: '.stages', isCommitted: true, prepare: async () => await delay(5000) },
  {
    name: 'live', path: () => '/projects/1/live', until: '.live tbody tr:nth-child(13)', isCommitted: true,
    prepare: async (page) => await page.locator('.live tbody tr:nth-child(6)', { hasText: 'accepted' }).waitFor()
  },
  { name: 'dead-letters', path: () => '/projects/1/dead-letters', until: 'table', isCommitted: true },
  {
    name: 'experiment', path: ({ experiment }) => `/projects/1/experiments/${experiment}`, until: '.lift svg', isCommitted: true, height: 1000,
    prepare: async (page) => await page.getByRole('heading', { name: 'Results' }).evaluate((heading: any) => heading.scrollIntoView())
  },
  { name: 'questions', path: () => '/projects/1/questions', until: 'table' },
  { name: 'question', path: ({ question }) => `/projects/1/questions/${question}`, until: '[aria-label=Answer] table' },
  { name: 'question-new', path: () => '/projects/1/questions/new/trend', until: 'form' },
  { name: 'boards', path: () => '/projects/1/boards', until: 'table' },
  { name: 'board', path: ({ board }) => `/projects/1/boards/${board}`, until: '.board:not(:has([aria-busy=true])) .tile svg', isCommitted: true, height: 900 },
  { name: 'stored', path: () => '/projects/1/stored', until: 'table' },
  { name: 'groups', path: () => '/projects/1/groups', until: 'table' },
  { name: 'find', path: () => '/projects/1/find?distinct_id=buyer%201', until: 'h2 code' },
  { name: 'find-name', path: () => '/projects/1/find?distinct_id=buyer+1', until: 'h2 code' },
  { name: 'find-nothing', path: () => '/projects/1/find?distinct_id=never+came', until: 'h2' },
  { name: 'dead-letter', path: () => '/projects/1/dead-letters/1', until: 'pre' },
  { name: 'flags', path: () => '/projects/1/flags', until: 'table' },
  {
    name: 'flag', path: ({ flag }) => `/projects/1/flags/${flag}`, until: 'form', isCommitted: true,
    prepare: async (page) => {
      await page.getByRole('spinbutton', { name: 'Rollout' }).first().fill('75')
      await page.getByRole('heading', { name: 'Unsaved changes' }).evaluate((heading: any) => heading.scrollIntoView())
    }
  },
  {
    name: 'schema', path: ({ schema }) => `/projects/1/schemas/${schema}`, until: 'form, textarea', isCommitted: true,
    prepare: async (page) => {
      await page.getByRole('button', { name: 'Check the draft' }).click()
      await page.getByRole('region', { name: 'By SDK' }).scrollIntoViewIfNeeded()
    }
  },
  { name: 'schemas', path: () => '/projects/1/schemas', until: 'table' },
  { name: 'rules', path: () => '/projects/1/rules', until: 'h1' },
  { name: 'flags-test', path: () => '/projects/1/flags/test', until: 'form' },
  { name: 'experiments', path: () => '/projects/1/experiments', until: 'table' },
  { name: 'experiment-new', path: () => '/projects/1/experiments/new', until: 'form' },
  {
    name: 'experiment-days', path: ({ experiment }) => `/projects/1/experiments/${experiment}`, until: '.lift svg',
    prepare: async (page) => {
      await page.getByText('More: why').click()
      await page.getByText('Day by day').click()
    }
  },
  { name: 'events', path: () => '/projects/1/events', until: 'table' },
  { name: 'event', path: ({ event }) => `/projects/1/events/${event}`, until: 'h2' },
  { name: 'properties', path: () => '/projects/1/properties', until: 'table' },
  { name: 'property', path: ({ property }) => `/projects/1/properties/${property}`, until: 'h2' },
  { name: 'persons', path: () => '/projects/1/persons', until: 'table' },
  { name: 'persons-found', path: () => '/projects/1/persons?search=buyer+1', until: 'table' },
  { name: 'person', path: ({ person }) => `/projects/1/persons/${person}`, until: 'h2' },
  { name: 'sql', path: () => '/projects/1/sql', until: 'textarea' },
  {
    name: 'sql-result', path: () => '/projects/1/sql', until: 'textarea',
    prepare: async (page) => {
      await page.getByRole('link', { name: 'events by day', exact: false }).first().click().catch(() => {})
      await page.locator('textarea').focus()
      await page.keyboard.press('Control+Enter')
      await delay(2500)
    }
  },
  { name: 'connect', path: () => '/projects/1/connect', until: '.copyable' },
  { name: 'usage', path: () => '/projects/1/usage', until: 'h2' },
  { name: 'warnings', path: () => '/projects/1/warnings', until: '.reason, .empty' },
  { name: 'keys', path: () => '/keys', until: 'table' },
  { name: 'key-new', path: () => '/keys', until: 'table', prepare: async (page) => await page.getByRole('button', { name: 'New key …' }).click() },
  { name: 'installation', path: () => '/installation', until: 'table' }
]

const [folder] = process.argv.slice(2)
const stack = await startStack()
const { browser, close } = await openBrowser()
try {
  const planted = await plantForPictures(stack)
  const sending = new AbortController()
  const sender = sendUntil(stack, sending.signal)
  const page = await browser.newPage({ viewport: PICTURE, reducedMotion: 'reduce' })
  await logIn(page, stack)
  if (folder === undefined) await drawCommitted(page, planted)
  else await drawAll(page, planted, folder)
  sending.abort()
  await sender
} finally {
  await close()
  await stack.stop()
}

async function logIn (page: Page, { url, personalApiKey }: Stack): Promise<void> {
  await page.goto(`${url}/console`)
  await page.getByLabel('Personal API key').fill(personalApiKey)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Log out' }).waitFor()
}

async function drawCommitted (page: Page, planted: Planted): Promise<void> {
  for (const drawing of DRAWINGS.filter(({ isCommitted }) => isCommitted === true)) {
    await page.setViewportSize({ ...PICTURE, height: drawing.height ?? PICTURE.height })
    await show(page, drawing, planted)
    await page.screenshot({ path: path.join(IMAGES, `console-${drawing.name}.png`) })
  }
}

async function drawAll (page: Page, planted: Planted, target: string): Promise<void> {
  await mkdir(target, { recursive: true })
  for (const drawing of DRAWINGS) {
    await show(page, drawing, planted).catch((error: unknown) => process.stderr.write(`${drawing.name}: ${String(error)}\n`))
    await drawLooks(page, path.join(target, drawing.name))
  }
  const empty = await createProject('Empty')
  for (const screen of EMPTY) {
    await page.goto(`${stack.url}/console/projects/${empty}/${screen}`)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await delay(SETTLED_MS)
    await drawLooks(page, path.join(target, `empty-${screen.replace(/\W/g, '-')}`))
  }
}

async function drawLooks (page: Page, start: string): Promise<void> {
  for (const { width, height, colorScheme } of LOOKS) {
    await page.setViewportSize({ width, height })
    await page.emulateMedia({ colorScheme })
    await delay(300)
    await page.screenshot({ path: `${start}-${width}-${colorScheme}.png`, fullPage: true })
  }
}

async function createProject (name: string): Promise<number> {
  const response = await fetch(`${stack.url}/api/projects/`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name, timezone: 'UTC' })
  })
  return (await response.json() as { id: number }).id
}

async function show (page: Page, { path: pathOf, until, prepare }: Drawing, planted: Planted): Promise<void> {
  await page.emulateMedia({ colorScheme: 'light' })
  await page.goto(`${stack.url}/console${pathOf(planted)}`)
  await page.locator(until).first().waitFor()
  await delay(SETTLED_MS)
  await prepare?.(page)
  await delay(300)
}
