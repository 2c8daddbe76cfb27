import { readFile } from 'node:fs/promises'
import { ServiceStartError } from '../../processes/wait-until-ready.ts'

/**
 * Postgres refuses to run as root, so root hands over to this user number. It has no entry in the list of users and
 * lies in a range that distributions leave alone, hence it shares its files with nobody.
 */
export const POSTGRES_UID = 61_000

/** True when this process has to run Postgres as somebody else. */
export function isRoot (): boolean {
  return process.getuid?.() === 0
}

/**
 * The user as whom root creates a cluster. Unlike the server, `initdb` insists on a user with a name; the files are
 * given to `POSTGRES_UID` afterwards.
 */
export async function readNobodyUid (): Promise<number> {
  const users = await readFile('/etc/passwd', 'utf8')
  const uid = Number(users.match(/^nobody:[^:]*:(\d+):/m)?.[1] ?? Number.NaN)
  if (Number.isInteger(uid) && uid !== 0) return uid
  throw new ServiceStartError('Postgres does not run as root, and this machine has no user "nobody" to begin with: ' +
    'start Millrace as another user, or set DATABASE_URL')
}
