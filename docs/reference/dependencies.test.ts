import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'

interface PackageJson {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}

async function readPackageJson (): Promise<PackageJson> {
  return JSON.parse(await readFile(path.join(import.meta.dirname, '..', '..', 'package.json'), 'utf8')) as PackageJson
}

/** Rows of the table of packages: name, and what it is for. */
async function readListed (): Promise<[name: string, purpose: string][]> {
  const page = await readFile(path.join(import.meta.dirname, 'dependencies.md'), 'utf8')
  const section = page.slice(page.indexOf('## Packages'), page.indexOf('## Written by hand'))
  return [...section.matchAll(/^\| `([^`]+)` \| (.*) \|$/gm)].map(([, name = '', purpose = '']) => [name, purpose])
}

t.test('each package is listed once, with what it is for', async (t) => {
  const { dependencies, devDependencies, optionalDependencies } = await readPackageJson()
  const names = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies }).sort()
  const listed = await readListed()

  t.same(listed.map(([name]) => name).sort(), names)
  t.same(listed.filter(([, purpose]) => purpose.trim() === ''), [])
})

t.test('versions are exact', async (t) => {
  const { dependencies, devDependencies, optionalDependencies } = await readPackageJson()
  const versions = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })

  t.same(versions.filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)), [])
})

t.test('the lockfile has every package for every platform, without which npm ci refuses it', async (t) => {
  const lock = JSON.parse(await readFile(path.join(import.meta.dirname, '..', '..', 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>
  }
  /** A package finds another in its own folder of packages, or in that of a folder above. */
  const isLocked = (from: string, name: string): boolean => {
    for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/')))) {
      if (`${folder === '' || folder.endsWith('/') ? folder : `${folder}/`}node_modules/${name}` in lock.packages) return true
      if (folder === '') return false
    }
  }
  const needed = Object.entries(lock.packages).flatMap(([from, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).map((name) => ({ from, name })))

  t.ok(needed.length > 20)
  t.same(needed.filter(({ from, name }) => !isLocked(from, name)), [])
})
