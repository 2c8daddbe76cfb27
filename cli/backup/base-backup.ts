import { link, mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import type { BackupFile } from './backup-files.ts'
import { readManifest } from './backup-folder.ts'

/** An earlier backup, whose files a new one shares as hard links: parts of ClickHouse never change. */
export interface BaseBackup {
  folder: string
  /** By their paths. */
  files: ReadonlyMap<string, BackupFile>
}

/** A smaller file takes one block of the disk, and is copied: some small files of a part may change. */
const SMALL_BYTES = 4096

/** A disk that has no hard links, or another disk than that of the base. */
const CANNOT_LINK = new Set(['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'ENOENT', 'EACCES'])

/** @throws {MillraceError} `MILLRACE_BACKUP_INCOMPLETE` when the folder has no complete backup. */
export async function openBase (folder: string): Promise<BaseBackup> {
  const { files } = await readManifest(folder)
  return { folder, files: new Map(files.map((file) => [file.path, file])) }
}

/**
 * Whether the base has this very part, and not another one of the same name: ClickHouse writes checksums of all columns
 * into one file of each part.
 *
 * @param part  `clickhouse/<table>/<part>`.
 * @param sha256  Of its file of checksums.
 */
export function hasPart (base: BaseBackup | undefined, part: string, sha256: string): base is BaseBackup {
  return base?.files.get(path.join(part, CHECKSUMS))?.sha256 === sha256
}

/** The file of a part with the checksums of its columns. */
export const CHECKSUMS = 'checksums.txt'

/**
 * Links a file of a part that the base has into a backup.
 *
 * @param bytes  Size of the file now.
 * @returns undefined when it must be copied.
 */
export async function linkFromBase (
  base: BaseBackup, folder: string, { name, bytes }: { name: string, bytes: number }
): Promise<BackupFile | undefined> {
  const known = base.files.get(name)
  if (known === undefined || known.bytes !== bytes || bytes < SMALL_BYTES) return undefined
  const source = path.join(base.folder, name)
  try {
    // What was damaged since is not carried on.
    if ((await stat(source)).size !== bytes) return undefined
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true, mode: 0o700 })
    await link(source, path.join(folder, name))
    return known
  } catch (error) {
    if (CANNOT_LINK.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
