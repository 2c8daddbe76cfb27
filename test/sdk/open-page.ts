import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo } from 'node:net'
import { createRequire } from 'node:module'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import chromium from '@sparticuz/chromium'
import { chromium as browserType, type Page } from 'playwright-core'
import { unpackBrowser } from './unpack-browser.ts'

const require = createRequire(import.meta.url)
const SDK_FILE = path.join(path.dirname(require.resolve('posthog-js/package.json')), 'dist', 'array.full.no-external.js')

/** A page with unmodified posthog-js in a real headless Chromium; `window.posthog` is there but not initialised. */
export interface SdkPage {
  page: Page
  url: string
  close (): Promise<void>
}

/** Serves a small page with posthog-js on a free port and opens it in a fresh browser profile. */
export async function openPage (): Promise<SdkPage> {
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
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop`

  const profile = await mkdtemp(path.join(tmpdir(), 'millrace-browser-'))
  const browser = await browserType.launchPersistentContext(profile, {
    executablePath: await unpackBrowser(),
    args: [...chromium.args, '--no-first-run', '--disable-background-networking', '--disable-component-update'],
    headless: true
  })
  const page = await browser.newPage()
  await page.goto(url)
  return {
    page,
    url,
    async close () {
      await browser.close()
      server.closeAllConnections()
      server.close()
      await rm(profile, { recursive: true, force: true })
    }
  }
}
