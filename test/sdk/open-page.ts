import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createRequire } from 'node:module'
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { existsSync } from 'node:fs'
import chromium from '@sparticuz/chromium'
import { type Browser, chromium as browserType, type Page } from 'playwright-core'

const require = createRequire(import.meta.url)
const SDK_FILE = path.join(path.dirname(require.resolve('posthog-js/package.json')), 'dist', 'array.full.no-external.js')

/** A page with unmodified posthog-js in a real headless Chromium; `window.posthog` is there but not initialised. */
export interface SdkPage {
  page: Page
  url: string
  close (): Promise<void>
}

/** Its package runs the browser in one process, where a crash of any part of it is one of the whole. */
const BROWSER_ARGS = [
  ...chromium.args.filter((arg) => arg !== '--single-process'),
  '--no-first-run', '--disable-background-networking', '--disable-component-update'
]

/**
 * Serves a small page with posthog-js on a free port and opens it in a fresh browser.
 *
 * @throws when the browser does not start; nothing is left then.
 */
export async function openPage (): Promise<SdkPage> {
  await using opened = new AsyncDisposableStack()
  const server = await serveShop()
  opened.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  // A process of the browser that is ended at the wrong moment leaves a file.
  const temporary = await mkdtemp(path.join(tmpdir(), 'millrace-browser-'))
  opened.defer(async () => await rm(temporary, { recursive: true, force: true, maxRetries: 3 }))
  const browser = await startBrowser(temporary)
  opened.defer(async () => await browser.close())
  const page = await browser.newPage()
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop`
  await page.goto(url)
  const all = opened.move()
  return { page, url, close: async () => await all.disposeAsync() }
}

/** A browser that crashes while it starts, which was seen once, says nothing about Millrace: it is started again. */
async function startBrowser (temporary: string): Promise<Browser> {
  const options = {
    executablePath: await unpackBrowser(),
    args: BROWSER_ARGS,
    headless: true,
    env: { ...process.env, TMPDIR: temporary }
  }
  return await browserType.launch(options).catch(async (error: unknown) => {
    process.stderr.write(`the browser did not start and is started again: ${String(error)}\n`)
    return await browserType.launch(options)
  })
}

async function serveShop (): Promise<Server> {
  const sdk = await readFile(SDK_FILE)
  const server = createServer((request, response) => {
    if (request.url === '/posthog.js') {
      response.writeHead(200, { 'content-type': 'text/javascript' }).end(sdk)
    } else {
      response.writeHead(200, { 'content-type': 'text/html' })
        .end('<!doctype html><title>Shop</title><script src="/posthog.js"></script><h1>Shop</h1>')
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

/** Among the leftovers of test runs, which git ignores; by version, so that an update is unpacked again. */
const FOLDER = path.join(import.meta.dirname, '..', '..', '.tap', `chromium-${readVersion()}`)

/**
 * Path of the browser, which its package brings compressed: it is unpacked by the first test that asks for it.
 *
 * The package would unpack it into the folder for temporary files and take the file for whole as soon as it exists,
 * while another test is still writing it. Here the whole folder gets its name when it is complete.
 */
async function unpackBrowser (): Promise<string> {
  if (!existsSync(FOLDER)) await unpackInto(FOLDER)
  return path.join(FOLDER, 'chromium')
}

async function unpackInto (folder: string): Promise<void> {
  await mkdir(path.dirname(folder), { recursive: true })
  const unfinished = await mkdtemp(`${folder}-`)
  const { TMPDIR } = process.env
  process.env.TMPDIR = unfinished
  try {
    await chromium.executablePath()
    await rename(unfinished, folder)
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    // Another test was faster.
    if (!existsSync(folder)) throw error
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = TMPDIR
  }
}

function readVersion (): string {
  const require = createRequire(import.meta.url)
  const main = require.resolve('@sparticuz/chromium')
  return (require(path.join(main, '..', '..', '..', 'package.json')) as { version: string }).version
}
