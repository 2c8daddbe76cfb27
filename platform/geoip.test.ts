import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { collectGarbage } from '../test/support/collect-garbage.ts'
import { LINEAR_GROWTH, measureGrowth } from '../test/support/cpu-time.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { openGeoip } from '../engines/enrichment/geoip.ts'
import { openGeoipFile } from './geoip-file.ts'
import { buildMmdb } from './testing/build-mmdb.ts'

const silent = pino({ level: 'silent' })

const CITY = {
  city: { names: { en: 'London', de: 'London' } },
  continent: { code: 'EU', names: { en: 'Europe' } },
  country: { iso_code: 'GB', names: { en: 'United Kingdom' } },
  location: { latitude: 51.5142, longitude: -0.0931, accuracy_radius: 100, time_zone: 'Europe/London' },
  postal: { code: 'EC2V' },
  subdivisions: [{ iso_code: 'ENG', names: { en: 'England' } }]
}

t.test('reads files of cities, of countries and the flat form', async (t) => {
  const locate = openGeoip(buildMmdb({
    '81.2.69.0/24': CITY, '2.125.160.0/24': { country: { iso_code: 'FR' } }, '5.1.0.0/16': { country_code: 'de' },
    '6.0.0.0/8': { country: { iso_code: 'nonsense' } }, '7.0.0.0/8': {}, '2001:db8:0:0:0:0:0:0/32': { country: { iso_code: 'JP' } }
  }))

  t.same(locate('81.2.69.142'), {
    $geoip_country_code: 'GB', $geoip_country_name: 'United Kingdom', $geoip_continent_code: 'EU', $geoip_continent_name: 'Europe',
    $geoip_city_name: 'London', $geoip_subdivision_1_code: 'ENG', $geoip_subdivision_1_name: 'England', $geoip_postal_code: 'EC2V',
    $geoip_latitude: 51.5142, $geoip_longitude: -0.0931, $geoip_accuracy_radius: 100, $geoip_time_zone: 'Europe/London'
  })
  t.same(locate('2.125.160.9'), { $geoip_country_code: 'FR' })
  t.same(locate('5.1.2.3'), { $geoip_country_code: 'DE' })
  t.same(locate('2001:db8::1'), { $geoip_country_code: 'JP' })
  for (const unknown of ['81.2.70.1', '6.1.1.1', '7.1.1.1', '127.0.0.1', '::1', '', 'text', '999.1.1.1']) t.equal(locate(unknown), null, unknown)
  t.equal(locate('81.2.69.142'), locate('81.2.69.142'), 'an answer is remembered')
})

t.test('a zone and the longest form do not matter; longer texts are not addresses, and are not kept', async (t) => {
  const locate = openGeoip(buildMmdb({ '2001:db8:0:0:0:0:0:0/32': { country: { iso_code: 'JP' } } }))
  for (const known of ['2001:db8::1%eth0', '2001:0db8:0000:0000:0000:ffff:255.255.255.255', `2001:0db8:0000:0000:0000:ffff:255.255.255.255%${'z'.repeat(15)}`]) {
    t.same(locate(known), { $geoip_country_code: 'JP' }, known)
  }
  for (const none of [' 2001:db8::1', '2001:db8::1 ', '2001:db8::1%', `2001:db8::1%${'z'.repeat(60)}`]) t.equal(locate(none), null, JSON.stringify(none))

  const growth = measureGrowth((size) => { t.equal(locate(`2001:db8::1%.${'1'.repeat(size)}`), null) }, 80_000)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU, where the reader takes 256 times`)

  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let each = 0; each < 100; each++) locate(JSON.parse(`"${each}${'x'.repeat(1_000_000)}"`) as string)
  collectGarbage()
  const kept = process.memoryUsage().heapUsed - before
  t.ok(kept < 10_000_000, `${kept} bytes of 100 MB are kept`)
})

t.test('a damaged file is refused, or its damaged records are unknown; it never throws later', async (t) => {
  const good = buildMmdb({ '81.2.69.0/24': CITY, '1.0.0.0/8': { country: { iso_code: 'AU' } } })
  t.throws(() => openGeoip(Buffer.from('no such file')))
  t.throws(() => openGeoip(good.subarray(0, good.length - 200)))
  let opened = 0
  for (let at = 0; at < good.length; at += 7) {
    const damaged = Buffer.from(good)
    damaged[at] = damaged[at]! ^ 0xff
    let locate: ReturnType<typeof openGeoip>
    try { locate = openGeoip(damaged) } catch { continue }
    opened++
    for (const address of ['81.2.69.142', '1.2.3.4', '9.9.9.9']) locate(address)
  }
  t.ok(opened > 20, `${opened} damaged files opened`)
})

t.test('a file that is replaced counts, one that is damaged leaves the last good one in use', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-geoip-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const file = path.join(folder, 'countries.mmdb')
  const replace = async (bytes: Buffer | string): Promise<void> => {
    await writeFile(`${file}.new`, bytes)
    await rename(`${file}.new`, file)
  }

  const geoip = await openGeoipFile(file, silent, 20)
  t.teardown(() => geoip.close())
  t.equal(geoip.locate('1.2.3.4'), null, 'no file yet')
  t.equal(geoip.data, null)
  t.match(geoip.parts(), [{ name: 'geoip', healthy: false, lastError: /countries\.mmdb cannot be used: ENOENT/ }])

  await replace(buildMmdb({ '1.0.0.0/8': { country: { iso_code: 'AU' } } }))
  await waitFor(() => geoip.locate('1.2.3.4')?.$geoip_country_code === 'AU')
  t.match(geoip.parts(), [{ healthy: true, lastError: null }])
  const { version } = geoip.data!
  await replace('damaged')
  await replace(buildMmdb({ '1.0.0.0/8': { country: { iso_code: 'NZ' } } }))
  await waitFor(() => geoip.locate('1.2.3.4')?.$geoip_country_code === 'NZ')
  t.ok(geoip.data!.version > version)
  await replace('damaged')
  await waitFor(() => !geoip.parts()[0]!.healthy)
  t.equal(geoip.locate('1.2.3.4')?.$geoip_country_code, 'NZ')
})

t.test('without a path nothing is looked up', async (t) => {
  const geoip = await openGeoipFile('', silent)

  t.equal(geoip.locate('1.1.1.1'), null)
  t.equal(geoip.data, null)
  t.same(geoip.parts(), [])
  geoip.close()
})
