import http from 'node:http'
import { readServicesAddress, startSharedServices, type ServicesAddress } from './shared-services.ts'

let address: Promise<ServicesAddress> | undefined

/**
 * The URL of a service that the tests of this run share; it is started now if no test asked before.
 *
 * Under the test runner the services belong to the run. A test file that is started alone (`node x.test.ts`) starts
 * them for itself, once.
 *
 * @throws when the service cannot run here, with the reason. Tests never skip silently.
 */
export async function askForService (name: 'postgres' | 'clickhouse'): Promise<string> {
  address ??= Promise.resolve(readServicesAddress(process.ppid) ?? startSharedServices(process.pid))
  const { port } = await address
  const { url, error } = await getJson(`http://127.0.0.1:${port}/${name}`)
  if (url === undefined) throw new Error(`${name} is needed by this test and did not start: ${error}`)
  return url
}

async function getJson (url: string): Promise<{ url?: string, error?: string }> {
  return await new Promise((resolve, reject) => {
    // No pool: an idle connection would keep the test process alive.
    http.get(url, { agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => { text += chunk })
      response.on('end', () => resolve(JSON.parse(text) as { url?: string, error?: string }))
    }).once('error', reject)
  })
}
