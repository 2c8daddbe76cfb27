/** What a new user does with a container, with what its logs say. */
import { waitFor } from '../support/wait-for.ts'
import type { Container } from './container-engine.ts'

/** What `docker logs` says of a start, the last one. */
export interface Printed {
  consoleUrl: string
  projectApiKey: string
  /** `analyst:<password>` */
  analyst: string
}

export function readPrinted (logs: string): Printed {
  const last = (line: RegExp): string => [...logs.matchAll(line)].at(-1)?.slice(1).join(':') ?? ''
  return {
    consoleUrl: last(/^ {2}Console +(\S+)$/gm),
    projectApiKey: last(/^ {2}Project API key +(\S+)$/gm),
    analyst: last(/^ {2}Read-only login +(\S+) \/ (\S+)$/gm)
  }
}

/** Sends an event, which must be acknowledged. */
export async function sendEvent (address: string, { projectApiKey }: Printed, event: string): Promise<void> {
  const { status } = await fetch(`http://${address}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: projectApiKey, event, distinct_id: 'd' })
  })
  if (status !== 200) throw new Error(`the event ${event} was answered with ${status}`)
}

/** How often each event is stored, once all of these are or a minute has passed. */
export async function countEvents (
  address: string, { analyst }: Printed, events: readonly string[]
): Promise<Record<string, number>> {
  const authorization = `Basic ${Buffer.from(analyst).toString('base64')}`
  const body = 'SELECT event, toUInt32(count()) AS times FROM events GROUP BY event FORMAT JSONEachRow'
  const count = async (): Promise<Record<string, number>> => {
    const answer = await fetch(`http://${address}/?database=millrace`, { method: 'POST', headers: { authorization }, body })
    const rows = (await answer.text()).split('\n').filter(Boolean).map((line) => JSON.parse(line) as { event: string, times: number })
    return Object.fromEntries(rows.map(({ event, times }) => [event, times]))
  }
  await waitFor(async () => {
    const found = await count()
    return events.every((event) => event in found)
  }).catch(() => {})
  return await count()
}

/** Logs in with the link that the start printed, at the address under which this machine has the container. */
export async function logIn (address: string, { consoleUrl }: Printed): Promise<number> {
  const link = new URL(consoleUrl).hash.replace('#login=', '')
  const { status } = await fetch(`http://${address}/console/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'millrace-console': '1' },
    body: JSON.stringify({ login_link: link })
  })
  return status
}

/** Arguments: body of an event, its name, login of analysts. Prints how often the event is stored. */
const SEND_AND_COUNT = `
  const [body, event, login] = process.argv.slice(1)
  const post = async (url, rest) => await fetch(url, { method: 'POST', ...rest })
  const sent = await post('http://127.0.0.1:8000/capture/', { headers: { 'content-type': 'application/json' }, body })
  if (sent.status !== 200) throw new Error('answered with ' + sent.status)
  let times = '0'
  for (let attempt = 0; attempt < 300 && times === '0'; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 200))
    const url = 'http://127.0.0.1:8123/?database=millrace&param_event=' + encodeURIComponent(event)
    const headers = { authorization: 'Basic ' + btoa(login) }
    const answer = await post(url, { headers, body: 'SELECT count() FROM events WHERE event = {event: String}' })
    times = (await answer.text()).trim()
  }
  console.log(times)`

/** Sends an event and counts it in a container that has no network. */
export async function tryInside (
  container: Container, { projectApiKey, analyst }: Printed, event: string
): Promise<string> {
  const body = JSON.stringify({ api_key: projectApiKey, event, distinct_id: 'd' })
  return await container.exec('node', '--input-type=module', '--eval', SEND_AND_COUNT, body, event, analyst)
}
