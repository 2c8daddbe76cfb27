import { isIP } from 'node:net'
import { Reader, type Response } from 'mmdb-lib'
import { rememberRecent } from './recent-answers.ts'
import { toStorableText } from '../body/storable-text.ts'

/** The properties of a place, as PostHog names them: `$geoip_country_code` and others. */
export type Place = Readonly<Record<string, string | number>>

/** @returns null for invalid addresses and those that are not in the file. */
export type LocateAddress = (address: string) => Place | null

/** Addresses remembered twice over: a few megabytes with a file of cities. */
const REMEMBERED = 5000

/**
 * Characters of an address at most: 45 of IPv6 that ends in the form of IPv4, and a zone (`%eth0`), whose name has up
 * to 15 on Linux. Longer texts, which clients may send as `$ip`, are not parsed: the reader takes time
 * with the square of a zone of digits.
 */
const LONGEST_ADDRESS = 61

/** Longer texts of a file are cut. */
const MAX_LENGTH = 200

/** An object of any shape, as files of several makers have it. */
type Fields = Readonly<Record<string, unknown>>

/**
 * Opens an MMDB file: of countries (GeoLite2, DB-IP and others that have `country.iso_code` or `country_code`), or of
 * cities. A record that cannot be read is an unknown address.
 *
 * @throws when the bytes are no such file.
 */
export function openGeoip (bytes: Buffer): LocateAddress {
  const reader = new Reader<Response>(bytes)
  const knowsIPv6 = reader.metadata.ipVersion === 6
  // A file that was cut off fails here, and not at the first event.
  for (const probe of ['1.1.1.1', '81.2.69.142', '216.160.83.56']) reader.get(probe)

  return rememberRecent((address) => {
    if (address.length > LONGEST_ADDRESS) return null
    const version = isIP(address)
    if (version === 0 || (version === 6 && !knowsIPv6)) return null
    try {
      return readPlace(reader.get(address))
    } catch {
      // A damaged record says nothing; the others are as good as before.
      return null
    }
  }, { size: REMEMBERED, longestKey: LONGEST_ADDRESS })
}

/** What of a place is less than a city: kept where addresses are not to be stored. */
export function onlyCountry (place: Place): Place {
  const { $geoip_country_code: code, $geoip_country_name: name, $geoip_continent_code: continent } = place
  return {
    ...code === undefined ? {} : { $geoip_country_code: code },
    ...name === undefined ? {} : { $geoip_country_name: name },
    ...continent === undefined ? {} : { $geoip_continent_code: continent }
  }
}

function readPlace (record: unknown): Place | null {
  const { country, country_code: code, continent, city, subdivisions, location, postal } = fieldsOf(record)
  const subdivision = fieldsOf(Array.isArray(subdivisions) ? subdivisions[0] : undefined)
  const place: Record<string, string | number> = {}
  const countryCode = fieldsOf(country).iso_code ?? code ?? (typeof country === 'string' ? country : undefined)
  if (typeof countryCode !== 'string' || !/^[A-Z]{2}$/i.test(countryCode)) return null
  place.$geoip_country_code = countryCode.toUpperCase()
  add('$geoip_country_name', nameOf(country))
  add('$geoip_continent_code', fieldsOf(continent).code)
  add('$geoip_continent_name', nameOf(continent))
  add('$geoip_city_name', nameOf(city) ?? city)
  add('$geoip_subdivision_1_code', subdivision.iso_code)
  add('$geoip_subdivision_1_name', nameOf(subdivision))
  add('$geoip_postal_code', fieldsOf(postal).code)
  add('$geoip_latitude', fieldsOf(location).latitude)
  add('$geoip_longitude', fieldsOf(location).longitude)
  add('$geoip_accuracy_radius', fieldsOf(location).accuracy_radius)
  add('$geoip_time_zone', fieldsOf(location).time_zone)
  return Object.freeze(place)

  function add (name: string, value: unknown): void {
    if (typeof value === 'string' && value !== '') place[name] = toStorableText(value.slice(0, MAX_LENGTH))
    if (typeof value === 'number' && Number.isFinite(value)) place[name] = value
  }
}

function nameOf (value: unknown): unknown {
  return fieldsOf(fieldsOf(value).names).en
}

function fieldsOf (value: unknown): Fields {
  return typeof value === 'object' && value !== null ? value as Fields : {}
}
