import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** What the nodes are made of. */
export interface LabPrograms {
  /** The built `node.c`. */
  node: string
  /** libchdb.so. */
  chdb: string
  /** Class path of ZooKeeper. */
  zooKeeper: string
}

/** `node.c` has the addresses of this build of `@chdb/lib-linux-x64-gnu`, 26.7.3-stable.1. */
const BUILD_ID = 'd3d8f5517577ad52775b52318a193784b2fb5317'
const LIBRARY = '@chdb/lib-linux-x64-gnu'

/** ZooKeeper and what it needs, of Debian 12. */
const PACKAGES = [
  'zookeeper', 'libzookeeper-java', 'libnetty-java', 'liblog4j1.2-java', 'libsnappy-java', 'libsnappy1v5', 'libsnappy-jni',
  'libjackson2-core-java', 'libjackson2-databind-java', 'libjackson2-annotations-java', 'libdropwizard-metrics-java',
  'libcommons-cli-java', 'libslf4j-java', 'libcommons-io-java'
]
const JARS = /^(zookeeper|zookeeper-jute|netty-[a-z-]+|slf4j-api|slf4j-log4j12|log4j-1\.2|metrics-core|snappy-java|commons-cli|commons-io|jackson-\w+)\.jar$/

/**
 * Builds the program of a node, and unpacks ZooKeeper from Debian's packages, which installs nothing. Both stay for the
 * next run, in `.tap/`.
 *
 * @throws when something is missing here; the message says what.
 */
export async function prepareLab (): Promise<LabPrograms> {
  const folder = path.join(import.meta.dirname, '..', '..', '..', '.tap', 'clickhouse-lab')
  await mkdir(folder, { recursive: true })
  const library = await findLibrary()
  for (const program of ['java', 'gcc', 'apt-get', 'dpkg']) {
    await run('which', [program]).catch(() => { throw new Error(`the nodes of a ClickHouse cluster need ${program}, which is not on PATH`) })
  }
  const node = path.join(folder, 'node')
  const source = path.join(import.meta.dirname, 'node.c')
  await run('gcc', ['-O1', '-Wall', '-fno-omit-frame-pointer', '-o', node, source, '-ldl'])
  const packages = path.join(folder, 'zookeeper')
  if (!await stat(packages).then(() => true, () => false)) await unpackZooKeeper(folder, packages)
  const jars = path.join(packages, 'usr', 'share', 'java')
  const files = (await readdir(jars)).filter((file) => JARS.test(file))
  return { node, chdb: library, zooKeeper: files.map((file) => path.join(jars, file)).join(':') }
}

async function findLibrary (): Promise<string> {
  let library: string
  try {
    const manifest = createRequire(createRequire(import.meta.url).resolve('chdb')).resolve(`${LIBRARY}/package.json`)
    library = path.join(path.dirname(manifest), 'libchdb.so')
  } catch (cause) {
    throw new Error(`the nodes of a ClickHouse cluster are made of ${LIBRARY}, which is for Linux on x64 with glibc and is not installed here`, { cause })
  }
  const found = await readBuildId(library)
  if (found !== BUILD_ID) {
    throw new Error(`libchdb.so is build ${found}; the addresses in test/cluster/lab/node.c are those of build ${BUILD_ID}. ` +
      'Find them again for this one, or install that version of chdb.')
  }
  return library
}

/** The note of the linker, which is near the beginning. */
async function readBuildId (file: string): Promise<string> {
  await using handle = await open(file)
  const { buffer } = await handle.read(Buffer.alloc(4096), 0, 4096, 0)
  const at = buffer.indexOf('\x14\0\0\0\x03\0\0\0GNU\0', 0, 'latin1')
  return at === -1 ? 'unknown' : buffer.toString('hex', at + 12, at + 32)
}

async function unpackZooKeeper (folder: string, to: string): Promise<void> {
  const work = await mkdtemp(path.join(folder, 'fetch-'))
  try {
    await run('apt-get', ['download', ...PACKAGES], { cwd: work })
    const unpacked = path.join(work, 'unpacked')
    for (const file of (await readdir(work)).filter((name) => name.endsWith('.deb'))) {
      await run('dpkg', ['-x', path.join(work, file), unpacked])
    }
    await rename(unpacked, to)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
