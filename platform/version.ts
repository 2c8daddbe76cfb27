import { readFileSync } from 'node:fs'
import path from 'node:path'

/** Version of this installation, from its package.json: `1.2.3`. */
export function readVersion (): string {
  const manifest = path.join(import.meta.dirname, '..', 'package.json')
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}
