/** Why a server cannot listen, in a sentence that names the setting. */
import { SettingsError } from '../engines/errors.ts'
import type { SettingName } from './settings.ts'

/** Where a server was to listen. */
export interface WantedAddress {
  port: number
  host: string
  /** What listens there, for people. */
  what: string
  /** The settings of both. */
  setting: SettingName
  hostSetting: SettingName
}

/** The settings of what each process listens on, by the name of the process. */
const SETTINGS: Readonly<Record<string, Pick<WantedAddress, 'setting' | 'hostSetting'>>> = {
  ingest: { setting: 'MILLRACE_PORT', hostSetting: 'MILLRACE_HOST' },
  api: { setting: 'MILLRACE_API_PORT', hostSetting: 'MILLRACE_HOST' },
  pipeline: { setting: 'MILLRACE_PIPELINE_PORT', hostSetting: 'MILLRACE_HOST' }
}

/** @param code  Of the error of `listen`, such as `EADDRINUSE`. */
export function describeListenError (code: string, { port, host, what, setting, hostSetting }: WantedAddress): string {
  if (code === 'EADDRINUSE') return `port ${port} for ${what} is in use by another process: set ${setting} to a free one`
  if (code === 'EACCES') {
    return `the user ${process.getuid?.() ?? ''} may not listen on port ${port} for ${what}: set ${setting} to one from 1024 on`
  }
  return `${hostSetting} must be an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all, ` +
    `but is ${JSON.stringify(host)} (${code})`
}

/**
 * Replaces the error of a process that could not listen by one that names its setting; returns any other as it is.
 *
 * @param name  Of the process: `ingest`, `api` or `pipeline`.
 * @param env  What the process was started with: a name that is looked up in vain is compared with its host.
 */
export function explainListenError (error: unknown, name: string, env: NodeJS.ProcessEnv): unknown {
  const settings = SETTINGS[name]
  const { syscall, code = '', address, hostname, port = 0 } = error as NodeJS.ErrnoException & {
    address?: string, hostname?: string, port?: number
  }
  if (settings === undefined) return error
  const isLookup = syscall === 'getaddrinfo' && hostname === env[settings.hostSetting]
  if (syscall !== 'listen' && !isLookup) return error
  return new SettingsError([describeListenError(code, { ...settings, port, host: address ?? hostname ?? '', what: name })])
}
