import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { loadAssets } from './bundle-assets.ts'

/** The first load may weigh so much, each further screen so much, in bytes compressed with gzip. */
const FIRST_LOAD_BYTES = 90_000
const SCREEN_BYTES = 32_000

t.test('the first load and every further screen are within their budgets', async (t) => {
  const { files, page } = await loadAssets()
  const textOf = (name: string): string => Buffer.from(files.get(name)!.encodings.identity).toString()
  const sizeOf = (names: Iterable<string>): number =>
    [...names].reduce((sum, name) => sum + files.get(name)!.encodings.gzip.length, 0)
  const withImports = (names: string[]): Set<string> => {
    const all = new Set(names)
    for (const name of all) {
      for (const [, imported] of textOf(name).matchAll(/(?:from|import)"\.\/([\w-]+\.js)"/g)) all.add(imported!)
    }
    return all
  }

  /** What code may load later, such as charts, is part of what its screen weighs. */
  const withAll = (name: string): Set<string> => {
    const all = withImports([name])
    for (const one of all) for (const later of lazyOf(one)) for (const needed of withImports([later])) all.add(needed)
    return all
  }
  const lazyOf = (name: string): string[] =>
    [...textOf(name).matchAll(/import\("\.\/([\w-]+\.js)"\)/g)].map(([, lazy]) => lazy!)

  const first = withImports([...page.matchAll(/\/console\/assets\/([\w.-]+)/g)].map(([, name]) => name!))
  const screens = [...first].flatMap(lazyOf)

  t.ok(sizeOf(first) > 5000 && sizeOf(first) <= FIRST_LOAD_BYTES, `first load: ${sizeOf(first)} bytes`)
  const menu = await readFile(path.join(import.meta.dirname, '../web/screens.ts'), 'utf8')
  const named = [...menu.matchAll(/await import\('\.\/[\w-]+\/([\w-]+)\.tsx'\)/g)].map(([, name]) => name!)
  t.ok(named.length >= 17, `${named.length} screens in the menu`)
  t.same(screens.map((name) => name.replace(/-\w+\.js$/, '')).sort(), named.sort(), 'each screen of the menu is looked at')
  for (const screen of screens) {
    const further = sizeOf([...withAll(screen)].filter((name) => !first.has(name)))
    t.ok(further > 500 && further <= SCREEN_BYTES, `${screen}: ${further} bytes`)
  }
})
