import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

/** Where the parts of a running stack answer; passwords are part of the URLs. */
export interface StackAddresses {
  /** The process that holds the stack. */
  pid: number
  /** The one origin for SDKs and management. */
  baseUrl: string
  apiUrl: string
  pipelineUrl: string
  natsUrl: string
  clickhouseUrl: string
  databaseUrl: string
}

/**
 * Leaves the addresses in `addresses.json` of the data directory, for tools on this machine. Only the owner may read
 * it, and it is there only while the stack runs (or after it was killed).
 */
export async function writeAddresses (dataDir: string, addresses: StackAddresses): Promise<void> {
  const file = fileIn(dataDir)
  await writeFile(`${file}.new`, `${JSON.stringify(addresses, null, 2)}\n`, { mode: 0o600 })
  await rename(`${file}.new`, file)
}

/** @throws when no stack was started on the data directory. */
export async function readAddresses (dataDir: string): Promise<StackAddresses> {
  return JSON.parse(await readFile(fileIn(dataDir), 'utf8')) as StackAddresses
}

export async function removeAddresses (dataDir: string): Promise<void> {
  await rm(fileIn(dataDir), { force: true })
}

function fileIn (dataDir: string): string {
  return path.join(dataDir, 'addresses.json')
}
