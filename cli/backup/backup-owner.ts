/** Whose a backup is that root makes where another user keeps its own: that user's service must read and remove it. */
import { constants } from 'node:fs'
import { type FileHandle, lchown, lstat, open, readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { isRoot } from '../../embedded/postgres/postgres-cluster.ts'

interface Owner {
  uid: number
  gid: number
}

/** A disk without owners, or one of another machine that does not take them from this root. */
const CANNOT_GIVE = new Set(['EPERM', 'EINVAL', 'ENOTSUP', 'ENOSYS'])

/**
 * Gives a backup to the owner of the folder that it is in, when this is root and that is somebody else. To be called
 * when everything is written: root must not write where another user may put links.
 *
 * Files that it shares with an earlier backup change their owner there, too.
 */
export async function giveToOwnerOfParent (folder: string): Promise<void> {
  if (!isRoot()) return
  const owner = await stat(path.dirname(folder))
  if (owner.uid === 0) return
  // The owner of the parent may put a link in the place of the folder: by its descriptor it stays the one opened.
  await using handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  const { uid, mode } = await handle.stat()
  // Of one that somebody else could enter nobody knows what is in it by now.
  if (uid !== 0 || (mode & 0o077) !== 0) return
  await unlessItCannot(async () => {
    await giveContent(handle, folder, owner)
    // Last, because its owner may enter it from then on.
    await handle.chown(owner.uid, owner.gid)
  })
}

async function giveContent (handle: FileHandle, folder: string, { uid, gid }: Owner): Promise<void> {
  const inside = process.platform === 'linux' ? `/proc/self/fd/${handle.fd}` : folder
  for (const entry of await readdir(inside, { recursive: true, withFileTypes: true })) {
    await lchown(path.join(entry.parentPath, entry.name), uid, gid)
  }
}

/** Gives a file that root left in a folder of another user to that user, who could not open it otherwise. */
export async function giveFileToOwnerOfParent (file: string): Promise<void> {
  if (!isRoot()) return
  const { uid, gid } = await stat(path.dirname(file))
  const found = await lstat(file)
  // With a second name it may be a file of the system.
  if (uid === 0 || found.uid !== 0 || !found.isFile() || found.nlink > 1) return
  await unlessItCannot(async () => { await lchown(file, uid, gid) })
}

async function unlessItCannot (give: () => Promise<void>): Promise<void> {
  await give().catch((error: NodeJS.ErrnoException) => {
    if (!CANNOT_GIVE.has(error.code ?? '')) throw error
  })
}
